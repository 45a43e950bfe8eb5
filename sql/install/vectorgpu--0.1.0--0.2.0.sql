-- vectorgpu 0.2.0: additions of ALTER EXTENSION vectorgpu UPDATE to 0.1.0; CREATE EXTENSION runs the script of 0.1.0 and this one
\echo Use "ALTER EXTENSION vectorgpu UPDATE TO '0.2.0'" to load this file. \quit

CREATE FUNCTION vectorgpu_recall(
	index regclass,
	INOUT sample int4 DEFAULT 100,
	INOUT k int4 DEFAULT 10,
	OUT found int8,
	OUT wanted int8,
	OUT recall float8,
	OUT recall_low float8,
	OUT recall_high float8)
	AS 'MODULE_PATHNAME', 'vectorgpu_recall' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;

COMMENT ON FUNCTION vectorgpu_recall(regclass, int4, int4) IS
	'share of the k nearest rows that the index finds for a random sample of the table''s rows, with its 95 % confidence interval';

REVOKE ALL ON FUNCTION vectorgpu_recall(regclass, int4, int4) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION vectorgpu_recall(regclass, int4, int4) TO pg_stat_scan_tables;

-- Shows recalls of indexes on tables that the caller may read, no contents.
CREATE FUNCTION vectorgpu_recall_samples(
	OUT index_oid oid,
	OUT samples int8,
	OUT dropped int8,
	OUT recall float8,
	OUT recall_low float8,
	OUT recall_high float8,
	OUT last_sample timestamptz)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_recall_samples' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

CREATE VIEW vectorgpu_index_recall AS
	SELECT n.nspname AS schema_name, t.relname AS table_name, c.relname AS index_name, a.amname AS access_method,
		s.recall, s.recall_low, s.recall_high, s.samples, s.dropped, s.last_sample
	FROM vectorgpu_recall_samples() s
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.index_oid
		JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
		JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) i.indrelid
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam;

COMMENT ON VIEW vectorgpu_index_recall IS
	'recall of scans as vectorgpu.recall_sample_rate has sampled them since the server started, by index';
COMMENT ON COLUMN vectorgpu_index_recall.schema_name IS 'schema of table and index';
COMMENT ON COLUMN vectorgpu_index_recall.table_name IS 'table';
COMMENT ON COLUMN vectorgpu_index_recall.index_name IS 'index';
COMMENT ON COLUMN vectorgpu_index_recall.access_method IS 'access method';
COMMENT ON COLUMN vectorgpu_index_recall.recall IS 'share of the nearest rows that the last two hundred samples or so have found';
COMMENT ON COLUMN vectorgpu_index_recall.recall_low IS 'lower end of its 95 % confidence interval';
COMMENT ON COLUMN vectorgpu_index_recall.recall_high IS 'upper end';
COMMENT ON COLUMN vectorgpu_index_recall.samples IS 'scans measured';
COMMENT ON COLUMN vectorgpu_index_recall.dropped IS 'scans given up after vectorgpu.recall_sample_time';
COMMENT ON COLUMN vectorgpu_index_recall.last_sample IS 'when the last one ended';

GRANT SELECT ON vectorgpu_index_recall TO PUBLIC;

COMMENT ON COLUMN vectorgpu_indexes.needs_reindex IS
	'true if the index is not valid, of another release, or its metapage or another of the few pages that this view reads is damaged; vectorgpu_check reads all';
COMMENT ON COLUMN vectorgpu_worker.memory_bytes IS 'bytes that they may have: vectorgpu.worker_memory and, on a GPU, vectorgpu.gpu_memory';

CREATE FUNCTION vectorgpu_knn_graph(
	index regclass,
	k int4,
	OUT source tid,
	OUT target tid,
	OUT rank int4,
	OUT distance float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_knn_graph' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 1000 ROWS 100000;

COMMENT ON FUNCTION vectorgpu_knn_graph(regclass, int4) IS
	'for each row of the index its k nearest other rows, as the index finds them, in the order of the table';

CREATE FUNCTION vectorgpu_path(
	index regclass,
	from_tid tid,
	to_tid tid,
	k int4 DEFAULT 10,
	OUT step int4,
	OUT tid tid,
	OUT distance float8)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'vectorgpu_path' LANGUAGE C STABLE STRICT PARALLEL UNSAFE COST 100000 ROWS 20;

COMMENT ON FUNCTION vectorgpu_path(regclass, tid, tid, int4) IS
	'the path between two rows in the k-NN graph whose longest step is shortest; no rows if there is none';

REVOKE ALL ON FUNCTION vectorgpu_knn_graph(regclass, int4), vectorgpu_path(regclass, tid, tid, int4) FROM PUBLIC;

-- Costs of a sequential scan for a row of a dozen attributes: without these costs it looks many times cheaper than an index
ALTER FUNCTION matchrow(VARIADIC "any") COST 100;
ALTER FUNCTION match_count(matchrow, matchquery) COST 100;
ALTER FUNCTION match_distance(matchrow, matchquery) COST 100;

CREATE OPERATOR CLASS bit_hamming_ops
	DEFAULT FOR TYPE bit USING gpuivf AS
	OPERATOR 1 <~> (bit, bit) FOR ORDER BY float_ops,
	FUNCTION 1 bit_hamming_shape();

CREATE OPERATOR CLASS bit_jaccard_ops
	FOR TYPE bit USING gpuivf AS
	OPERATOR 1 <%> (bit, bit) FOR ORDER BY float_ops,
	FUNCTION 1 bit_jaccard_shape();

-- Counts of an index on a table that the caller may read, NULLs for others: safe for any role.
CREATE FUNCTION vectorgpu_index_fallbacks(
	index regclass,
	OUT fallbacks int8,
	OUT fallback_reasons text)
	AS 'MODULE_PATHNAME', 'vectorgpu_index_fallbacks' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION vectorgpu_index_fallbacks(regclass) IS 'how often scans of the index could not have the worker, and why; vectorgpu_indexes shows it';

CREATE OR REPLACE VIEW vectorgpu_indexes AS
	SELECT n.nspname AS schema_name, t.relname AS table_name, c.relname AS index_name, a.amname AS access_method,
		s.element, s.metric, s.dimensions, s.rows, s.segment_rows, s.null_rows, s.delta_rows, s.dead_rows, s.segments,
		s.delta_bytes, s.index_bytes, s.manifest_generation, s.tombstone_generation, s.free_blocks, s.leaked_blocks,
		s.format_version, s.is_valid, s.needs_reindex, s.lists, s.list_imbalance, s.list_drift,
		w.resident_bytes, w.manifest_generation AS copy_manifest_generation, w.delta_end AS copy_delta_end,
		w.tombstone_generation AS copy_tombstone_generation, w.loads, w.searches,
		f.fallbacks, f.fallback_reasons::pg_catalog.jsonb AS fallback_reasons
	FROM vectorgpu_index_stats() s
		JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) s.index_oid
		JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) c.oid
		JOIN pg_catalog.pg_class t ON t.oid OPERATOR(pg_catalog.=) i.indrelid
		JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
		JOIN pg_catalog.pg_am a ON a.oid OPERATOR(pg_catalog.=) c.relam
		JOIN pg_catalog.pg_database d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
		LEFT JOIN LATERAL (
			SELECT * FROM vectorgpu_worker_copies() k
			WHERE k.filenode OPERATOR(pg_catalog.=) pg_catalog.pg_relation_filenode(c.oid)
				AND k.tablespace OPERATOR(pg_catalog.=)
					CASE WHEN c.reltablespace OPERATOR(pg_catalog.=) 0::pg_catalog.oid THEN d.dattablespace ELSE c.reltablespace END
			ORDER BY k.idle LIMIT 1) w ON true
		CROSS JOIN LATERAL vectorgpu_index_fallbacks(c.oid::pg_catalog.regclass) f;

COMMENT ON COLUMN vectorgpu_indexes.fallbacks IS
	'batches of rows of this index that came from its pages although the worker was wanted, since the server started; of an index that was not counted for long it may begin anew';
COMMENT ON COLUMN vectorgpu_indexes.fallback_reasons IS 'the same by reason: {"reason": batches}';

CREATE OPERATOR CLASS bit_hamming_ops
	DEFAULT FOR TYPE bit USING gpugraph AS
	OPERATOR 1 <~> (bit, bit) FOR ORDER BY float_ops,
	FUNCTION 1 bit_hamming_shape();

CREATE OPERATOR CLASS bit_jaccard_ops
	FOR TYPE bit USING gpugraph AS
	OPERATOR 1 <%> (bit, bit) FOR ORDER BY float_ops,
	FUNCTION 1 bit_jaccard_shape();

COMMENT ON FUNCTION vectorgpu_check(regclass, boolean, boolean) IS
	'verifies every page of an index; if asked to, that it has every row of the table with its value (of gpuivf with refine = none only that it has the row, and whether that is NULL), and that the worker''s copy, if a current one is there, equals it';
