-- vectorgpu 0.3.0: additions of ALTER EXTENSION vectorgpu UPDATE to 0.2.0; CREATE EXTENSION runs the scripts before and this one
\echo Use "ALTER EXTENSION vectorgpu UPDATE TO '0.3.0'" to load this file. \quit

-- Without it l2_norm of a vector would be that of the vector rounded to halfvec.
CREATE FUNCTION l2_norm(vector) RETURNS float8
	AS 'MODULE_PATHNAME', 'vectorgpu_vector_norm' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The default recall target of an index on a table that the caller may read, and what the index was measured to reach; NULLs for others: safe for any role.
CREATE FUNCTION vectorgpu_index_reach(
	index regclass,
	OUT recall_target float8,
	OUT recall_reached float8)
	AS 'MODULE_PATHNAME', 'vectorgpu_index_reach' LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;

COMMENT ON FUNCTION vectorgpu_index_reach(regclass) IS
	'default recall target of an index, and the recall that its searches were measured to reach; vectorgpu_indexes shows it';

CREATE OR REPLACE VIEW vectorgpu_indexes AS
	SELECT n.nspname AS schema_name, t.relname AS table_name, c.relname AS index_name, a.amname AS access_method,
		s.element, s.metric, s.dimensions, s.rows, s.segment_rows, s.null_rows, s.delta_rows, s.dead_rows, s.segments,
		s.delta_bytes, s.index_bytes, s.manifest_generation, s.tombstone_generation, s.free_blocks, s.leaked_blocks,
		s.format_version, s.is_valid, s.needs_reindex, s.lists, s.list_imbalance, s.list_drift,
		w.resident_bytes, w.manifest_generation AS copy_manifest_generation, w.delta_end AS copy_delta_end,
		w.tombstone_generation AS copy_tombstone_generation, w.loads, w.searches,
		f.fallbacks, f.fallback_reasons::pg_catalog.jsonb AS fallback_reasons,
		r.recall_target, r.recall_reached
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
		CROSS JOIN LATERAL vectorgpu_index_fallbacks(c.oid::pg_catalog.regclass) f
		CROSS JOIN LATERAL vectorgpu_index_reach(c.oid::pg_catalog.regclass) r;

COMMENT ON COLUMN vectorgpu_indexes.recall_target IS
	'recall target of scans of a session that has not changed it; NULL: the access method has none';
COMMENT ON COLUMN vectorgpu_indexes.recall_reached IS
	'share of the 10 nearest rows that searches of the largest segment were measured to find, of those that do not look at all rows; scans for a higher target look at all rows; NULL: not measured';
