// Codes of rows that are on the device, by product quantisers whose parts are short: those of engine/ivf, bit for bit.
#pragma once

#include "cuda/build/kmeans.hpp"
#include "engine/ivf/list_coder.hpp"

namespace vectorgpu::cuda
{

class RowEncoder
{
public:
	/// False: the host makes such codes.
	static bool serves(const engine::ivf::CodeSpec &codes);

	/// Send the model, and make room for most_rows rows at a time; nothing if that is done. The coder is the same each
	/// time, and ready. kOutOfMemory: also each time after.
	Status prepare(ClusterContext *context, const engine::ListCoder &coder, uint32_t most_rows);

	/// Code the rows, which are in the lists labels [rows.n()], into coded, from row `at` of it on. Waits.
	Status encode(const ClusterRows &rows, const ClusterCentroids &centroids, const uint32_t *labels, size_t at,
		const engine::CodedRows &coded);

private:
	Status make_room(const engine::ListCoder &coder, uint32_t most_rows);

	ClusterContext *context_ = nullptr;
	engine::ivf::PqSpec spec_;
	bool is_ready_ = false;
	bool has_failed_ = false;
	Held codebook_; // [m, sub_dim, codewords]
	Held labels_;   // [most_rows]
	Held codes_;    // [most_rows, code_bytes]
	Held terms_;    // [most_rows]
};

} // namespace vectorgpu::cuda
