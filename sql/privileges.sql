-- privileges: contents of an index are contents of its table
\getenv srcdir PG_ABS_SRCDIR
\set file :srcdir '/sql/include/extension.sql'
\i :file

CREATE ROLE vg_owner;
CREATE ROLE vg_reader;
CREATE ROLE vg_nobody;
CREATE ROLE vg_monitor IN ROLE pg_stat_scan_tables;
CREATE SCHEMA priv AUTHORIZATION vg_owner;
GRANT USAGE ON SCHEMA priv TO PUBLIC;
SET SESSION AUTHORIZATION vg_owner;
CREATE TABLE priv.tab (id int, v vector(3)) WITH (autovacuum_enabled = off);
CREATE INDEX idx ON priv.tab USING gpuflat (v);
INSERT INTO priv.tab SELECT i, ARRAY[i, 1, 2]::vector FROM generate_series(1, 20) i;
GRANT SELECT ON priv.tab TO vg_reader;
RESET SESSION AUTHORIZATION;

-- PUBLIC has no EXECUTE on the function; other roles also need SELECT on the table
SET SESSION AUTHORIZATION vg_reader;
SELECT rows FROM vectorgpu_check('priv.idx');
RESET SESSION AUTHORIZATION;
GRANT EXECUTE ON FUNCTION vectorgpu_check TO vg_owner, vg_reader, vg_nobody;
SET SESSION AUTHORIZATION vg_reader;
SELECT rows FROM vectorgpu_check('priv.idx');
SELECT vectorgpu_merge('priv.idx');
SELECT index_name, delta_rows FROM vectorgpu_indexes WHERE schema_name = 'priv';
SET SESSION AUTHORIZATION vg_nobody;
SELECT rows FROM vectorgpu_check('priv.idx');
SELECT rows FROM vectorgpu_check('priv.idx', true);
SELECT vectorgpu_merge('priv.idx');
SELECT count(*) FROM vectorgpu_indexes WHERE schema_name = 'priv';
SELECT count(*) FROM vectorgpu_index_stats() s WHERE s.index_oid = 'priv.idx'::regclass;
SET SESSION AUTHORIZATION vg_monitor;
SELECT rows, heap_rows_checked FROM vectorgpu_check('priv.idx', true);
SELECT index_name, delta_rows FROM vectorgpu_indexes WHERE schema_name = 'priv';
SELECT vectorgpu_merge('priv.idx');
SET SESSION AUTHORIZATION vg_owner;
SELECT rows FROM vectorgpu_check('priv.idx');
SELECT rows_moved FROM vectorgpu_merge('priv.idx');
SELECT index_name, rows FROM vectorgpu_indexes WHERE schema_name = 'priv';

-- row security: the index has rows that the reader may not see
ALTER TABLE priv.tab ENABLE ROW LEVEL SECURITY;
CREATE POLICY small ON priv.tab USING (id < 5);
SELECT rows, heap_rows_checked FROM vectorgpu_check('priv.idx', true);
SET SESSION AUTHORIZATION vg_reader;
SELECT count(*) FROM priv.tab;
SELECT rows FROM vectorgpu_check('priv.idx');
SELECT count(*) FROM vectorgpu_indexes WHERE schema_name = 'priv';
SET row_security = off;
SELECT rows FROM vectorgpu_check('priv.idx');
RESET row_security;
SET SESSION AUTHORIZATION vg_monitor;
SELECT rows, heap_rows_checked FROM vectorgpu_check('priv.idx', true);
SET SESSION AUTHORIZATION vg_owner;
ALTER TABLE priv.tab FORCE ROW LEVEL SECURITY;
SELECT rows FROM vectorgpu_check('priv.idx');
RESET SESSION AUTHORIZATION;
SELECT rows, heap_rows_checked FROM vectorgpu_check('priv.idx', true);

-- a superuser who checks an index runs the functions in its expressions as the table's owner
SET SESSION AUTHORIZATION vg_owner;
CREATE FUNCTION priv.trojan(v vector) RETURNS vector(3) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_user <> 'vg_owner' THEN
		RAISE 'runs as %', current_user;
	END IF;
	RETURN v;
END
$$;
CREATE TABLE priv.trap (id int, v vector(3)) WITH (autovacuum_enabled = off);
CREATE INDEX trap_idx ON priv.trap USING gpuflat ((priv.trojan(v)::vector(3)));
INSERT INTO priv.trap VALUES (1, '[1,2,3]');
RESET SESSION AUTHORIZATION;
SELECT heap_rows_checked FROM vectorgpu_check('priv.trap_idx', true);
SELECT rows_moved FROM vectorgpu_merge('priv.trap_idx');
SELECT current_user = session_user AS still_myself;

REVOKE EXECUTE ON FUNCTION vectorgpu_check FROM vg_owner, vg_reader, vg_nobody;
\set VERBOSITY terse
SET client_min_messages = warning;
DROP SCHEMA priv CASCADE;
DROP ROLE vg_owner, vg_reader, vg_nobody, vg_monitor;
