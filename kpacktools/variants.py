"""Variant wheels (PEP 825) in place of device wheels. Experimental: released installers pass them by.

One distribution has a wheel for each device, told apart by a label at the end of the file name. An installer that knows
variants asks a provider, here rocm-bootstrap's ``amd :: gfx_arch``, which device is there, and takes that wheel.
variantlib (the extra ``kpacktools[variants]``) writes what the wheel and the index say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from rocm_bootstrap.variant_provider import AMDVariantPlugin

from kpacktools.errors import CallError
from kpacktools.outputs.wheelmeta import wheel_stem
from kpacktools.outputs.wheelset import PlannedWheel
from kpacktools.targets import GENERIC

__all__ = ["VariantSet", "variant_set"]

PROVIDER: Final = "rocm_bootstrap.variant_provider:AMDVariantPlugin"
NAMESPACE: Final = "amd"
FEATURE: Final = "gfx_arch"


class VariantSet(Struct, frozen=True):
    """The wheels of a set, those of processors as variants, and the index of these."""

    wheels: tuple[PlannedWheel, ...]
    index_name: str
    """``rocm_sdk_device-7.15.0-variants.json``."""
    index: bytes


def variant_set(wheels: Sequence[PlannedWheel], distribution: str) -> VariantSet:
    """Make the wheel of each processor a variant of one distribution; host, families and parts stay what they are.

    Raises :class:`~kpacktools.errors.CallError` where variantlib is missing, where no wheel is a processor's, and for a
    processor that rocm-bootstrap's provider does not know.
    """
    try:
        from variantlib.api import VariantDescription, VariantProperty, make_variant_dist_info
        from variantlib.constants import VARIANT_DIST_INFO_FILENAME
        from variantlib.models.variant_info import ProviderInfo, VariantInfo
        from variantlib.variants_json import VariantsJson
    except ImportError as error:
        raise CallError(f"--variants needs variantlib: pip install kpacktools[variants] ({error})") from None
    known = {value for config in AMDVariantPlugin.get_all_configs() for value in config.values}
    provider = ProviderInfo(requires=["rocm-bootstrap"], plugin_api=PROVIDER)
    info = VariantInfo(namespace_priorities=[NAMESPACE], providers={NAMESPACE: provider})
    index = VariantsJson(info)
    made = []
    stems = set()
    for wheel in wheels:
        if wheel.key == GENERIC or wheel.is_bundle or wheel.engine:
            made.append(wheel)
            continue
        if wheel.key not in known:
            raise CallError(
                f"--variants: rocm-bootstrap's provider knows no {NAMESPACE} :: {FEATURE} :: {wheel.key}"
            )
        variant = VariantDescription([VariantProperty(NAMESPACE, FEATURE, wheel.key)], label=wheel.key)
        index.variants[wheel.key] = variant
        document = make_variant_dist_info(variant, info, expand_aot_plugin_properties=False)
        file = (VARIANT_DIST_INFO_FILENAME, document.encode())
        spec = replace(
            wheel.spec,
            distribution=distribution,
            variant=wheel.key,
            dist_info=(*wheel.spec.dist_info, file),
        )
        stems.add(wheel_stem(spec))
        made.append(replace(wheel, spec=spec))
    if not stems:
        raise CallError("--variants: no wheel of the set is a processor's")
    (stem,) = stems
    return VariantSet(tuple(made), f"{stem}-variants.json", index.to_str().encode())
