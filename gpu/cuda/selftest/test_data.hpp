// Small helpers of all parts of the self-test. All data is the same everywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cuda/device/device.hpp"
#include "engine/interface/engine.hpp"

namespace vectorgpu::cuda
{

/// Knuth's linear congruential generator (MMIX).
inline uint32_t
next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return static_cast<uint32_t>(*state >> 33);
}

/// A real number in [-1, 1).
inline float
next_real(uint64_t *state)
{
	return static_cast<float>(next(state) % 65536) * 0x1p-15f - 1.0f;
}

template <class T>
void
append(std::vector<uint8_t> *bytes, const T *items, size_t n)
{
	const uint8_t *first = reinterpret_cast<const uint8_t *>(items);

	bytes->insert(bytes->end(), first, first + n * sizeof(T));
}

/// The row id of each row.
inline RowId
id_of(size_t row)
{
	return RowId{row} * 3 + 7;
}

inline std::vector<RowId>
make_ids(size_t n)
{
	std::vector<RowId> ids(n);

	for (size_t i = 0; i < n; i++)
		ids[i] = id_of(i);
	return ids;
}

/// Every fifth row is dead.
inline bool
is_dead(size_t row)
{
	return row % 5 == 0;
}

/// Tombstones of the first n_marked of n rows.
inline std::vector<uint8_t>
make_tombstones(size_t n, size_t n_marked)
{
	std::vector<uint8_t> bits((n + 7) / 8);

	for (size_t i = 0; i < n_marked; i++)
		if (is_dead(i))
			bits[i / 8] = static_cast<uint8_t>(bits[i / 8] | 1 << (i % 8));
	return bits;
}

/// True if rows and scores are the same, bit for bit.
inline bool
same_answer(std::span<const engine::Neighbor> a, std::span<const engine::Neighbor> b)
{
	return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const engine::Neighbor &x, const engine::Neighbor &y)
		{ return std::memcmp(&x.score, &y.score, sizeof(double)) == 0 && x.row == y.row; });
}

/// Sorts the neighbours and keeps the k first.
inline void
keep_first(std::vector<engine::Neighbor> *neighbors, size_t k)
{
	std::sort(neighbors->begin(), neighbors->end(), engine::neighbor_less);
	neighbors->resize(std::min(neighbors->size(), k));
}

inline Status
failed(const std::string &message)
{
	return Status::error(StatusCode::kUnavailable, message);
}

/// Loads segment 1 of a copy, of n_rows rows with a structure, seals it and marks the dead rows. vectors: null if
/// segments have none. The first error of these.
inline Status
load_sealed(engine::Engine *engine, engine::CopyId copy, size_t n_rows, const void *vectors, uint32_t parameter,
	std::span<const uint8_t> structure)
{
	VECTORGPU_TRY(engine->load_segment(copy, 1, {make_ids(n_rows), vectors, n_rows}));
	VECTORGPU_TRY(engine->load_structure(copy, 1, parameter, structure));
	VECTORGPU_TRY(engine->seal_segment(copy, 1));
	return engine->set_tombstones(copy, 1, make_tombstones(n_rows, n_rows));
}

/// Creates a copy, calls run(copy), and drops the copy. The first error of these.
template <class Run>
Status
with_copy(engine::Engine *engine, const engine::CopySpec &spec, Run run)
{
	engine::CopyId copy = 0;

	VECTORGPU_TRY(engine->create(spec, &copy));

	const Status status = run(copy);
	const Status dropped = engine->drop(copy);

	return status.is_ok() ? dropped : status;
}

} // namespace vectorgpu::cuda
