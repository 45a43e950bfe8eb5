// What the files of the product quantiser share. Internal to the folder.
#pragma once

#include "engine/ivf/pq.hpp"

namespace vectorgpu::engine::ivf
{

/// Elements of a rotated row as the matrix product writes it: dim rounded up to the widest panel.
size_t pq_rotated_stride(const PqSpec &spec);

/// The rotation as a matrix in panels [rotated_stride / panel_width, dim, panel_width].
void pq_pack_rotation(const PqModel &model, size_t panel_width, float *panels);

} // namespace vectorgpu::engine::ivf
