// Codes of key columns for tests of the CUDA engine: areas, an engine that holds small ones, programs.
#pragma once

#include <memory>
#include <vector>

#include "engine/interface/key_codes.hpp"
#include "engines.hpp"
#include "predicate/random_programs.hpp"

namespace vectorgpu::cuda::test
{

using engine::KeyCodes;
using engine::PassingSegment;
using vectorgpu::test::Column;
using vectorgpu::test::ColumnCodes;
using vectorgpu::test::Opened;
using vectorgpu::test::Tree;
using vectorgpu::test::Zone;

/// An engine that holds the codes of small segments, too.
inline CudaEngine *
key_engine()
{
	static std::unique_ptr<CudaEngine> engine;

	if (engine == nullptr)
	{
		CudaEngineOptions options;

		options.workspace_bytes = size_t{256} << 20;
		options.least_key_rows = 1;
		options.self_test = false;

		make_or_throw(options, &engine);
	}
	return engine.get();
}

/// The columns of a segment, as one area.
struct Area
{
	std::vector<uint8_t> bytes;
	std::vector<ColumnCodes> columns;
	uint64_t n_rows;

	Area(const std::vector<Column> &from, uint64_t n) : n_rows(n)
	{
		std::vector<size_t> begins;
		const auto put = [&](const std::vector<uint8_t> &part)
		{
			begins.push_back(bytes.size());
			bytes.insert(bytes.end(), part.begin(), part.end());
			bytes.resize((bytes.size() + 7) / 8 * 8);
		};

		for (const Column &column : from)
		{
			put(column.codes);
			put(column.nulls);
		}
		for (size_t i = 0; i < from.size(); i++)
			columns.push_back(
				{bytes.data() + begins[2 * i], from[i].nulls.empty() ? nullptr : bytes.data() + begins[2 * i + 1],
					from[i].zones.data(), from[i].width});
	}

	engine::KeyArea view() const { return {bytes, columns, n_rows}; }
};

/// A copy of rows, which are not searched.
struct Copy
{
	Engine *engine;
	CopyId id = 0;

	explicit Copy(Engine *in, engine::CopyKind kind = engine::CopyKind::kRows) : engine(in)
	{
		const Status status = in->create(engine::CopySpec({Metric::kL2, ElementType::kFloat32, 64}, kind), &id);

		EXPECT_TRUE(status.is_ok()) << status.message;
	}
	~Copy() { EXPECT_TRUE(engine->drop(id).is_ok()); }
};

/// One ascending column: row i has code i.
inline std::vector<Column>
numbered(size_t n_rows)
{
	Column column;

	column.width = 4;
	for (uint32_t row = 0; row < n_rows; row++)
	{
		const auto *bytes = reinterpret_cast<const uint8_t *>(&row);

		column.codes.insert(column.codes.end(), bytes, bytes + 4);
	}
	column.zones.resize((n_rows + engine::predicate::kBlockRows - 1) / engine::predicate::kBlockRows);
	engine::predicate::make_zones(column.view(false), n_rows, column.zones.data());
	return {column};
}

inline Opened
range(std::vector<uint8_t> *bytes, uint64_t low, uint64_t high)
{
	engine::predicate::Node node = engine::predicate::exact_range(0, low, high);

	*bytes = vectorgpu::test::program_of(&node);
	return Opened(*bytes);
}

} // namespace vectorgpu::cuda::test
