// Codes of rows that are on the device, of SQ8 and of product quantisers whose parts are short: those of engine/ivf,
// bit for bit.
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
	Status encode_sq8(const ClusterRows &rows, uint8_t *is_out);
	Status encode_pq(const ClusterRows &rows, const ClusterCentroids &centroids, const uint32_t *labels, float *terms);

	ClusterContext *context_ = nullptr;
	engine::ivf::CodeSpec spec_;
	bool is_ready_ = false;
	bool has_failed_ = false;
	Held model_;  // floats of the codes' model
	Held labels_; // [most_rows]; PQ only
	Held codes_;  // [most_rows, code_bytes]
	Held terms_;  // [most_rows] float; PQ only
	Held is_out_; // [most_rows]; SQ8 only
};

} // namespace vectorgpu::cuda
