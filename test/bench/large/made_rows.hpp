// Made rows like those of embedding models: a row follows from its number alone, so that any part of a table can be
// made again. Any number of threads may use one object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vectorgpu::bench
{

/// What rows are drawn from. A row is W (centre of its group + z) + noise e, divided by its length: z normal of
/// `latent` dimensions, whose deviations fall as i^-decay, W [dim, latent] fixed and normal, e normal.
struct RowLaw
{
	uint32_t dim = 96;
	uint32_t latent = 48;
	double decay = 0.8;
	uint32_t n_groups = 4096; // of rank r the weight r^-1/2; 1: none
	double spread = 0.7;      // of a group, where that of centres is sqrt(1 - spread²)
	double noise = 0.05;      // of an element, in lengths of a row over sqrt(dim)
	uint64_t seed = 1;
};

class MadeRows
{
public:
	explicit MadeRows(const RowLaw &law);

	/// rows [n, dim] of numbers [n].
	void make(const uint64_t *numbers, size_t n, float *rows) const;

	/// Numbers from here on are drawn as rows are, and are none.
	static constexpr uint64_t kFirstQuery = uint64_t{1} << 40;

	uint32_t dim() const { return law_.dim; }

private:
	static constexpr size_t kAtOnce = 4; // rows that share what is read of W

	void make_latent(uint64_t number, float *latent) const;
	void finish(uint64_t number, float *row) const;

	const RowLaw law_;
	uint32_t latent_pad_;           // a multiple of the normal numbers of a hash
	uint32_t dim_pad_;              // of a multiple of 16
	std::vector<float> normal_;     // quantiles of the normal distribution
	std::vector<uint16_t> groups_;  // by 16 random bits
	std::vector<float> centres_;    // [n_groups, latent]
	std::vector<float> deviations_; // [latent], of z
	std::vector<float> projection_; // W: [latent, dim_pad]
};

} // namespace vectorgpu::bench
