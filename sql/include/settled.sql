-- included by tests whose VACUUM must remove all rows deleted before: an older transaction of another session, such as autovacuum's ANALYZE, keeps them
-- settled(): waits until there is none; called between the DELETE and the VACUUM
CREATE OR REPLACE FUNCTION pg_temp.settled() RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	mine xid := pg_current_xact_id()::xid;
BEGIN
	FOR i IN 1 .. 1200 LOOP
		PERFORM pg_stat_clear_snapshot();
		IF NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND greatest(age(backend_xmin), age(backend_xid)) > age(mine)) THEN
			RETURN true;
		END IF;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RETURN false;
END $$;
