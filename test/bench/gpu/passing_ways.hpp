// Part of gpu_passing_bench: searches of a data set with conditions, with rows that pass packed and without.
#pragma once

namespace vectorgpu::bench
{

/// data: the folder of sift-bsds-128. Returns the number of lines with different answers.
int compare_packed(const char *data);

} // namespace vectorgpu::bench
