-- modify: scans that are the source of UPDATE, DELETE, MERGE, FOR UPDATE.
--
-- Claims: on two copies of a table, one changed by the server alone and one
-- through our ring, each command returns the same rows in the same order and
-- leaves the same rows.  The pages that the scan reads stay in the ring, also
-- where a tuple slot keeps an old one pinned: nothing escapes for a pin or for
-- WAL, and the hot table survives.  The first dirty pages may stay: see
-- sql/dirty.sql.  (New row versions are not the ring's: here
-- they find room in their own page, or there are none.)

-- Rows so that each page has room for another version of one of them.
SET client_min_messages = warning;
CREATE PROCEDURE copies() LANGUAGE plpgsql AS $$
BEGIN
    DROP TABLE IF EXISTS stock, ours;
    CREATE TABLE stock (id int, v int, filler text) WITH (fillfactor = 70);
    INSERT INTO stock SELECT id, v, substr(filler, 1, 1500) FROM big ORDER BY id;
    CREATE TABLE ours (LIKE stock) WITH (fillfactor = 70);
    INSERT INTO ours SELECT * FROM stock;
    COMMIT;
    ANALYZE stock, ours;
END $$;

-- Run a command that returns rows, @ being the table, on both copies.
-- "judged" says whether shared_buffers is expected to hold no pages of the table but
-- those of the ring and, unless the ring's size is set, at most 64 dirty ones.
CREATE FUNCTION on_both(command text, judged boolean DEFAULT true)
RETURNS TABLE (same_result boolean, same_rows boolean, hot boolean, in_ring boolean,
               escapes_pinned numeric, escapes_dirty numeric, exact boolean) LANGUAGE plpgsql AS $$
DECLARE
    wrap text := 'WITH changed AS (%s) SELECT count(*) || coalesce(md5(string_agg(c::text, '' '')), '''') FROM changed c';
    stock text;
    ours text;
BEGIN
    PERFORM set_mode('off');
    EXECUTE format(wrap, replace(command, '@', 'stock')) INTO stock;
    PERFORM set_mode('control');
    PERFORM fresh();
    EXECUTE format(wrap, replace(command, '@', 'ours')) INTO ours;

    same_result := (stock = ours AND stock NOT LIKE '0%');
    IF judged THEN
        hot := hot_survives();
        in_ring := cached('ours') <= (SELECT ring_buffers FROM stats('ours')) +
            CASE current_setting('pg_ringctl.scan_ring') WHEN '-1' THEN 64 ELSE 0 END;
    END IF;
    SELECT sum(s.escapes_pinned), sum(s.escapes_dirty) INTO escapes_pinned, escapes_dirty
      FROM pg_ringctl_stats s;
    exact := exact();
    same_rows := digest('SELECT ctid, id, v, length(filler) FROM stock')
               = digest('SELECT ctid, id, v, length(filler) FROM ours');
    RETURN NEXT;
END $$;

-- A hinted and visible table: what is dirtied, the command dirties.
CALL copies();
VACUUM stock, ours;
VACUUM big;

-- Locks, some and all
SELECT * FROM on_both('SELECT id FROM @ WHERE id % 800 = 0 FOR UPDATE');
SELECT * FROM on_both('SELECT id FROM @ WHERE v < 3 FOR SHARE');
SELECT * FROM on_both('SELECT id FROM @ FOR UPDATE');
SELECT * FROM on_both('SELECT id FROM @ WHERE v < 50 FOR NO KEY UPDATE SKIP LOCKED');
SELECT * FROM on_both('SELECT id FROM @ WHERE id % 500 = 0 ORDER BY id DESC FOR UPDATE', false);

-- Updates: none, some, in the page
SELECT * FROM on_both('UPDATE @ SET v = 1 WHERE id = 20480 RETURNING id');
SELECT * FROM on_both('UPDATE @ SET v = -v WHERE id % 800 = 0 RETURNING id, v');
SELECT * FROM on_both('UPDATE @ SET v = -v WHERE id % 37 = 0 RETURNING id, v');
-- all: three new versions for every page with room for one
SELECT * FROM on_both('UPDATE @ SET v = v + 1 RETURNING id, v', false);
VACUUM stock, ours;
-- from a self-join
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SELECT * FROM on_both('UPDATE @ t SET v = o.v + 1000 FROM @ o
                     WHERE t.id % 4000 = 1 AND o.id = t.id + 1 RETURNING t.id, t.v, o.id', false);
RESET enable_hashjoin;
RESET enable_mergejoin;
SELECT * FROM on_both('UPDATE @ t SET v = o.v + 1 FROM @ o
                     WHERE t.id % 300 = 1 AND o.id = t.id + 1 RETURNING t.id, t.v, o.id', false);

-- MERGE
SELECT * FROM on_both('MERGE INTO @ t USING small s ON s.id * 200 = t.id
                    WHEN MATCHED AND t.id % 400 = 0 THEN DELETE
                    WHEN MATCHED THEN UPDATE SET v = 12345
                    WHEN NOT MATCHED THEN INSERT VALUES (-s.id, s.v, s.filler)
                    RETURNING merge_action(), t.id, t.v', false);
SELECT * FROM on_both('MERGE INTO @ t USING (SELECT * FROM big WHERE v = 3) s ON s.id = t.id
                    WHEN MATCHED THEN UPDATE SET v = t.v + 1
                    RETURNING merge_action(), t.id, t.v', false);

-- Triggers, one of which scans
CREATE FUNCTION before_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    NEW.v := (SELECT count(*) FROM small WHERE id < NEW.v);
    RETURN NEW;
END $$;
CREATE FUNCTION after_row() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM FROM small; RETURN NULL; END $$;
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON stock FOR EACH ROW EXECUTE FUNCTION before_row();
CREATE TRIGGER b BEFORE UPDATE OR DELETE ON ours FOR EACH ROW EXECUTE FUNCTION before_row();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON stock FOR EACH ROW EXECUTE FUNCTION after_row();
CREATE TRIGGER a AFTER UPDATE OR DELETE ON ours FOR EACH ROW EXECUTE FUNCTION after_row();
SELECT * FROM on_both('UPDATE @ SET v = id % 60 WHERE id % 400 = 7 RETURNING id, v', false);
SELECT * FROM on_both('DELETE FROM @ WHERE id % 400 = 8 RETURNING id, v', false);
SELECT * FROM on_both('DELETE FROM @ WHERE id % 2000 = 10 AND v IS NOT NULL RETURNING *', false);

-- Deletes, some and all; the first scan after the load, too
CALL copies();
CHECKPOINT;
SELECT * FROM on_both('DELETE FROM @ WHERE id % 800 = 5 RETURNING id');
SELECT * FROM on_both('DELETE FROM @ WHERE id % 3 = 0 RETURNING id');
SELECT * FROM on_both('DELETE FROM @ t WHERE EXISTS (SELECT FROM small s WHERE s.id * 250 = t.id) RETURNING id');
SELECT * FROM on_both('DELETE FROM @ RETURNING id');
SELECT count(*) FROM ours;

-- Through the smallest rings
CALL copies();
VACUUM stock, ours;
SET pg_ringctl.scan_ring = '128kB';
SELECT * FROM on_both('SELECT id FROM @ WHERE id % 100 = 0 FOR UPDATE');
SELECT * FROM on_both('UPDATE @ SET v = -v WHERE id % 100 = 0 RETURNING id, v');
SELECT * FROM on_both('DELETE FROM @ WHERE id % 100 = 1 RETURNING id, v');
SET pg_ringctl.scan_ring = '64kB';
SELECT * FROM on_both('SELECT id FROM @ WHERE id % 100 = 2 FOR UPDATE');
SELECT * FROM on_both('UPDATE @ SET v = -v WHERE id % 100 = 2 RETURNING id, v');
SELECT * FROM on_both('DELETE FROM @ WHERE id % 100 = 3 RETURNING id, v');
RESET pg_ringctl.scan_ring;

-- Commands that return nothing, at the top, and in a cursor
SELECT fresh();
UPDATE ours SET v = 0 WHERE id % 4000 = 9;
DELETE FROM ours WHERE id % 4000 = 9;
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM ours WHERE id % 4000 = 10 FOR UPDATE;
FETCH 1 FROM c;
UPDATE ours SET v = 77 WHERE CURRENT OF c;
FETCH 1 FROM c;
DELETE FROM ours WHERE CURRENT OF c;
FETCH ALL FROM c;
COMMIT;
SELECT id, v FROM ours WHERE id % 4000 = 10 ORDER BY id;
SELECT scans, escapes_pinned, escapes_dirty, hot_survives(), exact() FROM stats('ours');

-- What the server alone leaves behind, "observe" counts.
CALL copies();
VACUUM stock, ours;
SET pg_ringctl.mode = observe;
SELECT fresh();
SELECT count(*) FROM (SELECT id FROM ours WHERE id % 800 = 0 FOR UPDATE) o;
SELECT escapes_pinned > 0 AS escapes, exact(), cached('ours') > ring_buffers AS more_than_the_ring
  FROM stats('ours');
RESET pg_ringctl.mode;

DROP TABLE stock, ours;
DROP PROCEDURE copies;
DROP FUNCTION on_both, before_row, after_row;
