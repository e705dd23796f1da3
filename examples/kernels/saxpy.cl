// y[i] = a * x[i] + y[i] for i < n. BLOCK work items a group.
__attribute__((reqd_work_group_size(BLOCK, 1, 1)))
kernel void saxpy_f32(global const float *x, global float *y, float a, uint n)
{
    uint i = __builtin_amdgcn_workgroup_id_x() * BLOCK + __builtin_amdgcn_workitem_id_x();
    if (i < n)
        y[i] = fma(a, x[i], y[i]);
}
