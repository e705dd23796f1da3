// sums[row] = x[row][0] + ... + x[row][columns - 1]; one work item a row, BLOCK rows a group.
__attribute__((reqd_work_group_size(BLOCK, 1, 1)))
kernel void row_sum_f32(global const float *x, global float *sums, uint rows, uint columns)
{
    uint row = __builtin_amdgcn_workgroup_id_x() * BLOCK + __builtin_amdgcn_workitem_id_x();
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (uint column = 0; column < columns; ++column)
        sum += x[row * columns + column];
    sums[row] = sum;
}
