-- vectorgpu_pgvector 0.3.0: operator classes of vectorgpu's access methods for pgvector's types, by pgvector's operators
\echo Use "CREATE EXTENSION vectorgpu_pgvector" to load this file. \quit

-- Every name below is qualified: a caller's objects in the path must not be taken for those meant.
SET LOCAL search_path TO pg_catalog, pg_temp;

DO $script$
DECLARE
	theirs text;  -- the schema of pgvector, which gets the classes: applications have it in their path
	ours text;    -- the schema of vectorgpu
	of record;    -- a type and a distance
	method text;
BEGIN
	SELECT quote_ident(n.nspname) INTO STRICT theirs FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector';
	SELECT quote_ident(n.nspname) INTO STRICT ours FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vectorgpu';
	IF to_regtype(theirs || '.halfvec') IS NULL OR to_regoperator(format('%s.<+>(%s.vector, %s.vector)', theirs, theirs, theirs)) IS NULL THEN
		RAISE EXCEPTION USING
			ERRCODE = 'feature_not_supported',
			MESSAGE = 'vectorgpu_pgvector needs pgvector 0.7.0 or later',
			DETAIL = format('Version %s is installed, which lacks the type halfvec or an operator of it.', (SELECT extversion FROM pg_extension WHERE extname = 'vector')),
			HINT = 'Install a later pgvector, and run ALTER EXTENSION vector UPDATE.';
	END IF;
	FOR of IN
		SELECT t.name AS type, d.name AS distance, d.operator FROM (VALUES ('vector'), ('halfvec'), ('sparsevec'), ('bit')) t (name)
			JOIN (VALUES
				(false, 'l2', '<->'), (false, 'ip', '<#>'), (false, 'cosine', '<=>'), (false, 'l1', '<+>'),
				(true, 'hamming', '<~>'), (true, 'jaccard', '<%>')) d (of_bits, name, operator)
			ON d.of_bits = (t.name = 'bit')
	LOOP
		EXECUTE format(
			'CREATE FUNCTION %s.pgvector_%s_%s_shape() RETURNS int4 AS %L, %L LANGUAGE C IMMUTABLE PARALLEL SAFE',
			ours, of.type, of.distance, 'MODULE_PATHNAME', format('vectorgpu_shape_foreign_%s_%s', of.type, of.distance));
		FOREACH method IN ARRAY CASE WHEN of.type = 'sparsevec' THEN ARRAY['gpuflat'] ELSE ARRAY['gpuflat', 'gpuivf', 'gpugraph'] END LOOP
			-- Core's bit has vectorgpu's classes as its default; of pgvector's types the same distance is the default as of ours.
			EXECUTE format(
				'CREATE OPERATOR CLASS %1$s.%2$s_%3$s_ops %4$s FOR TYPE %5$s USING %6$s AS
					OPERATOR 1 %1$s.%7$s (%5$s, %5$s) FOR ORDER BY pg_catalog.float_ops,
					FUNCTION 1 %8$s.pgvector_%2$s_%3$s_shape()',
				theirs, of.type, of.distance,
				CASE WHEN of.distance = 'l2' THEN 'DEFAULT' ELSE '' END,
				CASE WHEN of.type = 'bit' THEN 'pg_catalog.bit' ELSE theirs || '.' || of.type END,
				method, of.operator, ours);
		END LOOP;
		CONTINUE WHEN of.type <> 'vector' OR of.distance = 'ip';
		EXECUTE format(
			'CREATE FUNCTION %s.pgvector_vector_lsh_%s_shape() RETURNS int4 AS %L, %L LANGUAGE C IMMUTABLE PARALLEL SAFE',
			ours, of.distance, 'MODULE_PATHNAME', format('vectorgpu_shape_foreign_vector_lsh_%s', of.distance));
		EXECUTE format(
			'CREATE OPERATOR CLASS %1$s.vector_lsh_%2$s_ops FOR TYPE %1$s.vector USING gpumatch AS
				OPERATOR 1 %1$s.%3$s (%1$s.vector, %1$s.vector) FOR ORDER BY pg_catalog.float_ops,
				FUNCTION 1 %4$s.pgvector_vector_lsh_%2$s_shape(),
				FUNCTION 2 %4$s.lsh_options(internal)',
			theirs, of.distance, of.operator, ours);
	END LOOP;
END
$script$;
