// Codes of the rows of a segment being written (engine/graph/codes/hash.hpp), by this process. PG dialect.
#include "am/gpugraph/writer.hpp"

namespace vectorgpu::am
{

bool
graph_make_codes(GraphWriter *writer, const engine::graph::GraphRows *rows, bool first_part, uint8 *codes)
{
	const engine::graph::Call call = graph_call(writer); // looks at interrupts
	const Size code_bytes = engine::graph::code_bytes(writer->model.code_bits, writer->meta->dim);
	engine::graph::CodeModel *hash = &writer->hash;
	uint32 at_once;
	float *work;

	if (first_part)
	{
		hash->spec = {rows->spec, writer->model.code_bits, engine::graph::CodeSpec().seed};
		hash->spec.rows.metric = writer->meta->metric;
		hash->floats = writer->code_floats;
	}
	work = static_cast<float *>(palloc(engine::graph::code_work_floats(hash->spec) * sizeof(float)));
	if (first_part && !engine::graph::train_codes(hash->spec, *rows, &hash->bound, writer->code_floats, work, call))
		return false;
	at_once = engine::graph::code_piece_rows(hash->spec);
	for (uint32 first = 0; first < rows->n_rows; first += Min(at_once, rows->n_rows - first))
	{
		engine::graph::GraphRows some = *rows;

		if (!call.progress(call.progress_context, first, rows->n_rows))
			return false;
		some.rows = rows->row(first);
		some.n_rows = Min(at_once, rows->n_rows - first);
		engine::graph::make_codes(*hash, some, codes + first * code_bytes, work);
	}
	pfree(work);
	return true;
}

} // namespace vectorgpu::am
