-- parameters: what they are by default, what they take and what they refuse,
-- who may set them, and that a size is honoured to the buffer.

--
-- Defaults
--
SELECT name, boot_val, unit, context, vartype, min_val, max_val, enumvals
  FROM pg_settings WHERE name LIKE 'pg\_ringctl.%' ORDER BY name COLLATE "C";
-- Every one has a description, and is as it was when the server started, or as
-- regress.conf has it.
SELECT count(*), bool_and(short_desc <> ''), bool_and(setting = boot_val OR source = 'configuration file')
  FROM pg_settings WHERE name LIKE 'pg\_ringctl.%';

--
-- Bad values
--
SELECT name, value, attempt(format('SET LOCAL pg_ringctl.%s = %L', name, value)) AS outcome
  FROM (VALUES
        ('mode', 'x'), ('mode', ''), ('mode', 'on'),
        ('scan_ring', '-2'), ('scan_ring', '1'), ('scan_ring', '63'), ('scan_ring', '63kB'),
        ('scan_ring', '16777217'), ('scan_ring', '17GB'), ('scan_ring', '1 mile'),
        ('max_ring', '-2'), ('max_ring', '0'), ('max_ring', '1'), ('max_ring', '63'),
        ('max_ring', '16777217'),
        ('scan_threshold', '-2'), ('scan_threshold', 'all'), ('scan_threshold', '20TB'),
        ('dirty_pages', 'x'), ('dirty_pages', 'on'),
        ('free_buffers_first', '2'),
        ('write_ring', '-2'), ('write_ring', '1023'), ('write_ring', '17GB'),
        ('headroom', '-1'), ('headroom', '1.6kB'),
        ('max_entries', '99'), ('max_entries', '-1'),
        ('track', 'perhaps'),
        ('enabled', 'off'), ('enabled', 'perhaps'),
        ('foo', '1')) v (name, value);

-- As a user sees them.
SET pg_ringctl.scan_ring = 63;
SET pg_ringctl.max_ring = 0;
SET pg_ringctl.mode = 'x';
SET pg_ringctl.foo = 1;
SET pg_ringctl.enabled = off;

--
-- Good values
--
SELECT name, value, set_config('pg_ringctl.' || name, value, false) AS shown
  FROM (VALUES
        ('mode', 'observe'), ('mode', 'OFF'), ('mode', 'control'),
        ('scan_ring', '-1'), ('scan_ring', '0'), ('scan_ring', '64'), ('scan_ring', '4MB'),
        ('scan_ring', '16GB'), ('scan_ring', '65536B'),
        ('max_ring', '64'), ('max_ring', '16GB'), ('max_ring', '-1'),
        ('scan_threshold', '-1'), ('scan_threshold', '0'), ('scan_threshold', '100'),
        ('scan_threshold', '8MB'), ('scan_threshold', '2147483647'),
        ('dirty_pages', 'leave'), ('dirty_pages', 'write'),
        ('free_buffers_first', 'off'), ('free_buffers_first', 'on'),
        ('write_ring', '-1'), ('write_ring', '0'), ('write_ring', '1MB'), ('write_ring', '16GB'),
        ('headroom', '0'), ('headroom', '100'),
        ('track', 'off')) v (name, value);
RESET ALL;

--
-- Who may set them
--
CREATE ROLE regress_ringctl_user;
SET ROLE regress_ringctl_user;
SET pg_ringctl.mode = 'observe';
SET pg_ringctl.scan_ring = '1MB';
SET pg_ringctl.scan_threshold = 0;
SET pg_ringctl.dirty_pages = 'leave';
SET pg_ringctl.free_buffers_first = off;
SET pg_ringctl.write_ring = '1MB';
SET pg_ringctl.headroom = 4;
\set VERBOSITY sqlstate
SET pg_ringctl.max_ring = '1MB';
SET pg_ringctl.track = off;
SET pg_ringctl.max_entries = 100;
SET pg_ringctl.enabled = off;
\set VERBOSITY terse
SET pg_ringctl.max_ring = '1MB';
\set VERBOSITY default
RESET ROLE;
RESET ALL;
GRANT SET ON PARAMETER pg_ringctl.max_ring TO regress_ringctl_user;
SET ROLE regress_ringctl_user;
SET pg_ringctl.max_ring = '1MB';
RESET ROLE;
RESET ALL;
REVOKE SET ON PARAMETER pg_ringctl.max_ring FROM regress_ringctl_user;
DROP ROLE regress_ringctl_user;

--
-- A size is honoured to the buffer
--
CREATE FUNCTION ring_of_scan(scan_ring text, max_ring text DEFAULT '-1')
RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('pg_ringctl.scan_ring', scan_ring, true),
            set_config('pg_ringctl.max_ring', max_ring, true);
    PERFORM pg_ringctl_stats_reset();
    PERFORM count(*) FROM big;
    RETURN (SELECT ring_buffers FROM stats('big'));
END $$;

SELECT scan_ring, max_ring, ring_of_scan(scan_ring, max_ring) * kb AS ring_kb
  FROM (SELECT current_setting('block_size')::int / 1024) b (kb),
       (VALUES ('0', '-1'), ('64kB', '-1'), ('72', '-1'), ('1MB', '-1'),
               ('2MB', '-1'),       -- an eighth of shared_buffers: the server's cap
               ('2056kB', '-1'), ('16GB', '-1'),
               ('1MB', '512kB'), ('64kB', '512kB'), ('-1', '64kB'),
               ('0', '64kB'),       -- no ring is not a ring
               ('2056kB', '4MB'), ('16GB', '4MB')) v (scan_ring, max_ring);

-- Chosen for us: room for a read at least, and within the cap.
SELECT ring_of_scan('-1') BETWEEN 18 AND 256 AS chosen;

-- The clamp is applied when the ring is used, not when it is set.
SET pg_ringctl.scan_ring = '2MB';
SET pg_ringctl.max_ring = '512kB';
SHOW pg_ringctl.scan_ring;
RESET ALL;

--
-- The threshold: above it, and the server's rule
--
CREATE FUNCTION ring_of_threshold(threshold bigint, rel regclass)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('pg_ringctl.scan_threshold', threshold::text, true);
    PERFORM pg_ringctl_stats_reset();
    EXECUTE format('SELECT count(*) FROM %s', rel);
    RETURN (SELECT ring_buffers > 0 FROM stats(rel));
END $$;

SELECT rel, what, ring_of_threshold(threshold, rel) AS ringed
  FROM (SELECT rel::regclass, v.*
          FROM unnest('{big,hot,small}'::regclass[]) rel,
               LATERAL (VALUES ('-1', -1), ('0', 0), ('its size - 1', blocks(rel) - 1),
                               ('its size', blocks(rel)),
                               ('2147483647', 2147483647)) v (what, threshold)) v;

--
-- The switch, by reload alone; psql waits until this session has it
-- (as long as there is a row).
--
ALTER SYSTEM SET pg_ringctl.enabled = off;
SELECT pg_reload_conf();
\o /dev/null
SELECT 1 WHERE current_setting('pg_ringctl.enabled')::bool \watch i=0.05 c=600 min_rows=1
\o
SHOW pg_ringctl.enabled;
SELECT pg_ringctl_stats_reset() IS NOT NULL AS reset;
SELECT count(*) FROM big;
SELECT count(*) AS counted FROM stats('big');
ALTER SYSTEM RESET pg_ringctl.enabled;
SELECT pg_reload_conf();
\o /dev/null
SELECT 1 WHERE NOT current_setting('pg_ringctl.enabled')::bool \watch i=0.05 c=600 min_rows=1
\o
SHOW pg_ringctl.enabled;
SELECT count(*) FROM big;
SELECT scans, ring_buffers > 0 AS ringed FROM stats('big');

DROP FUNCTION ring_of_scan, ring_of_threshold;
