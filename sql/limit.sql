--
-- limit: scans that are left early.
--
-- Claims: a scan that is left within its first 32 blocks, by a LIMIT, by EXISTS
-- or because a cursor is closed, reads just what it reads in the server, and is
-- not counted; one that goes on beyond them gets a ring, also behind pages of
-- deleted rows; rows and their order are the server's, forward and back.
--
CREATE TABLE limited (id int, pad text);
INSERT INTO limited SELECT id, repeat('x', 1090) FROM generate_series(1, 20000) id;
VACUUM (ANALYZE) limited;

-- Pages of the table that a query leaves in an empty pool.
CREATE FUNCTION pages(query text, mode text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_mode(mode), fresh();
    PERFORM digest(query);
    RETURN cached('limited');
END $$;
-- As many as in the server?  And were scans counted?  From 19 on, how far the
-- server looks ahead depends on how long reads take, so this is tried again.
CREATE FUNCTION compare(query text, OUT as_server boolean, OUT same boolean, OUT counted bigint) LANGUAGE plpgsql AS $$
DECLARE
    server bigint;
    rows text := digest(query);
BEGIN
    FOR try IN 1 .. 5 LOOP
        server := pages(query, 'off');
        as_server := server = pages(query, 'control');
        EXIT WHEN as_server;
    END LOOP;
    SELECT coalesce(sum(scans), 0) INTO counted FROM stats('limited');
    same := rows = digest(query);
END $$;

SELECT what, c.* FROM (VALUES
    ('nothing', 'SELECT id FROM limited LIMIT 0'),
    ('one', 'SELECT id FROM limited LIMIT 1'),
    ('ten', 'SELECT id FROM limited LIMIT 10'),
    ('offset', 'SELECT id FROM limited LIMIT 10 OFFSET 70'),
    ('hundred', 'SELECT id FROM limited LIMIT 100'),
    ('filter', 'SELECT id FROM limited WHERE id % 2 = 0 LIMIT 10'),
    ('ties', 'SELECT id FROM (SELECT id FROM limited LIMIT 50) l ORDER BY id FETCH FIRST 10 ROWS WITH TIES'),
    ('exists', 'SELECT i FROM generate_series(1, 3) i WHERE EXISTS (SELECT FROM limited WHERE id > i OFFSET 0)'),
    ('lateral', 'SELECT i, l.id FROM generate_series(1, 5) i, LATERAL (SELECT id FROM limited LIMIT 10 + i) l')
  ) q(what, query), LATERAL compare(query) c;

-- Also if max_ring leaves room for the first blocks.  If not, there is a ring at
-- once.
CREATE FUNCTION counted_below(max_ring text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('pg_ringctl.max_ring', max_ring, true);
    RETURN (compare('SELECT id FROM limited LIMIT 10')).counted;
END $$;
SELECT max_ring, counted_below(max_ring) AS counted FROM unnest('{64MB, 256kB, 248kB}'::text[]) max_ring;

-- Beyond its first blocks it has a ring: the first row of the 33rd page is the
-- 225th one.
SELECT what, c.same, c.counted FROM (VALUES
    ('224', 'SELECT id FROM limited LIMIT 224'),
    ('225', 'SELECT id FROM limited LIMIT 225'),
    ('all', 'SELECT id FROM limited LIMIT ALL'),
    ('lateral', 'SELECT i, l.id FROM generate_series(1, 3) i, LATERAL (SELECT id FROM limited LIMIT 230 + i) l')
  ) q(what, query), LATERAL compare(query) c;
SELECT exact(), escapes_pinned + escapes_dirty AS escapes FROM stats('limited');

-- A cursor, forward and back, within its first blocks and beyond
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM limited LIMIT 300;
MOVE 20 IN c;
FETCH BACKWARD 2 FROM c;
MOVE 200 IN c;
FETCH BACKWARD 2 FROM c;
MOVE FORWARD ALL IN c;
FETCH BACKWARD 1 FROM c;
MOVE BACKWARD ALL IN c;
FETCH 1 FROM c;
COMMIT;
BEGIN;
DECLARE c SCROLL CURSOR FOR SELECT id FROM limited;
FETCH LAST FROM c;
FETCH FIRST FROM c;
MOVE 230 IN c;
FETCH BACKWARD 1 FROM c;
MOVE BACKWARD 100 IN c;
FETCH 1 FROM c;
FETCH ABSOLUTE 20000 FROM c;
CLOSE c;
-- the settings change while it reads its first blocks
DECLARE c CURSOR FOR SELECT id FROM limited;
MOVE 20 IN c;
SET LOCAL pg_ringctl.mode = 'off';
MOVE 1000 IN c;
FETCH 1 FROM c;
CLOSE c;
SET LOCAL pg_ringctl.mode = 'control';
DECLARE c CURSOR FOR SELECT id FROM limited;
MOVE 20 IN c;
SET LOCAL pg_ringctl.scan_ring = 0;
MOVE 1000 IN c;
FETCH 1 FROM c;
COMMIT;

-- Most of the rows are no more: it goes on, through its ring.
DELETE FROM limited WHERE id < 15000;
SELECT c.same, c.counted FROM compare('SELECT id FROM limited LIMIT 10') c;
SELECT blocks > 2000 AS far, hot_survives(), cached('limited') <= 2 * ring_buffers_max AS in_two_rings,
       escapes_pinned + escapes_dirty AS escapes, exact() FROM stats('limited');

-- It only observes: the same, through the server's ring.
SET pg_ringctl.mode = observe;
SELECT fresh();
SELECT id FROM limited LIMIT 2;
SELECT scans, blocks > 2000 AS far, exact() FROM stats('limited');
RESET pg_ringctl.mode;

-- A small query beside a scan starts at the block that the scan has reported, the
-- last multiple of 16 that it has got, and finds it in the scan's ring, 15 blocks
-- later, too.  The blocks up to "last" are in the pool, so that reads begin at other
-- blocks each time.
CREATE FUNCTION reads_beside_a_scan(last int) RETURNS bigint LANGUAGE plpgsql SET synchronize_seqscans = on AS $$
DECLARE
    c CURSOR FOR SELECT id FROM big;
    reads bigint := 0;
BEGIN
    PERFORM fresh();
    PERFORM FROM big WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', b)::tid FROM generate_series(0, last) b));
    OPEN c;
    MOVE 4 * 63 + 1 IN c;
    FOR i IN 1 .. 20 LOOP
        reads := reads + read_by_explain('SELECT EXISTS (SELECT FROM big)');
        MOVE 4 * 16 IN c;
    END LOOP;
    RETURN reads;
END $$;
\c -
SELECT sum(reads_beside_a_scan(block)) FROM generate_series(32, 47) block;
DROP FUNCTION reads_beside_a_scan;

DROP FUNCTION compare, pages;
DROP TABLE limited;
