// Definitions of the configuration parameters. See guc.hpp.
#include "pg/guc.hpp"

#include "pg/define_setting.hpp"
#include "pg/fault.hpp"

extern "C"
{
#include "utils/guc.h"
}

namespace vectorgpu::pg
{

namespace
{

// Numbered as engine::SimdLevel.
const struct config_enum_entry kSimdLevels[] = {
	{"auto", 0, false},
	{"scalar", 1, false},
	{"avx2", 2, false},
	{"avx512", 3, false},
	{nullptr, 0, false},
};

SimdControl simd_control;
int simd_setting = 0;

bool
check_simd(int *value, void **extra, GucSource source)
{
	if (simd_control.supported(*value))
		return true;
	GUC_check_errdetail("This processor does not have the instructions.");
	return false;
}

void
assign_simd(int value, void *extra)
{
	(void) simd_control.set(value);
}

} // namespace

void
guc_define(const SimdControl &simd)
{
	simd_control = simd;
	define_enum("vectorgpu.simd", "Instruction set of the distance kernels.", "All of them give the same results.",
		&simd_setting, 0, kSimdLevels, PGC_USERSET, 0, check_simd, assign_simd, nullptr);
#ifdef VECTORGPU_FAULTS
	fault_define_guc();
#endif
	reserve_prefix("vectorgpu");
}

} // namespace vectorgpu::pg
