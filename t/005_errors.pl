# Claims: an error that is caught in the middle of a transaction, and a cursor
# that is abandoned, do not disturb the scans that go on: these return exactly
# their rows, in order, and every scan is counted once.  No page is left pinned,
# and the server does not find a resource that was not closed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 4000;
my $sum = sum_to($pages);
my $node = new_node('main');
$node->append_conf(
	'postgresql.conf', q(
session_preload_libraries = 'pg_ringctl'
synchronize_seqscans = off
));
$node->start;
$node->safe_psql('postgres',
	'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache');
load_table($node, $_, $pages) foreach qw(outside inside);
create_functions();

my $session = session($node);

error_in_where();
caught_error_beside_a_cursor();
nested_errors_beside_a_cursor();
abandoned_in_a_function();
scan_for_each_row();
cursors_abandoned_at_end_of_transaction();
cursors_abandoned_at_savepoint();
counted_by_a_session_that_never_commits();
counted_when_a_query_fails();
held_cursors();

foreach my $table (qw(outside inside))
{
	nothing_is_pinned($node, $table, 'at the end');
}
rows_add_up($node, 'at the end');
$session->quit;
$node->stop;
log_is_clean($node, 'errors');
done_testing();


sub create_functions
{
	$node->safe_psql(
		'postgres', q(
-- an error at a row
CREATE FUNCTION fail_at(id integer, at integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF id = at THEN
        RAISE EXCEPTION 'row %', id USING ERRCODE = 'UE001';
    END IF;
    RETURN true;
END $$;

-- scans that fail, n of them; the last row that was read
CREATE FUNCTION scan_and_catch(n integer, at integer) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    message text;
BEGIN
    FOR i IN 1..n LOOP
        BEGIN
            PERFORM count(*) FROM inside WHERE fail_at(id, at + i);
        EXCEPTION WHEN SQLSTATE 'UE001' THEN
            message := SQLERRM;
        END;
    END LOOP;
    RETURN message;
END $$;

-- one scan in the middle of another one, and so on; the innermost fails, and the
-- outer ones catch it and read on.  Returns the rows that they read in all.
CREATE FUNCTION scan_in_scan(depth integer, at integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    n bigint := 0;
    r record;
BEGIN
    IF depth = 0 THEN
        PERFORM count(*) FROM inside WHERE fail_at(id, at);
    END IF;
    FOR r IN SELECT id FROM inside LOOP
        n := n + 1;
        IF r.id = at THEN
            BEGIN
                n := n + scan_in_scan(depth - 1, at);
            EXCEPTION WHEN SQLSTATE 'UE001' THEN
                n := n + 1000000;
            END;
        END IF;
    END LOOP;
    RETURN n;
END $$;

-- leaves a loop over a scan in its middle, by RETURN
CREATE FUNCTION leave_scan(at integer) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    r record;
BEGIN
    FOR r IN SELECT id FROM inside LOOP
        IF r.id = at THEN
            RETURN r.id;
        END IF;
    END LOOP;
END $$;

-- a whole scan
CREATE FUNCTION scan_all() RETURNS bigint LANGUAGE sql AS 'SELECT sum(id) FROM inside';
));
}

# What the session has counted is pending until it looks itself.
sub scans_of
{
	my ($table) = @_;

	$session->query_safe('SELECT count(*) FROM pg_ringctl_stats_info');
	return counters($node, $table, 'scans') || 0;
}

# Runs $code while a cursor in its middle is open, again and again, and checks
# that the cursor returns its rows as if nothing had happened.
sub beside_a_cursor
{
	my ($name, $code) = @_;
	my $before = scans_of('outside');
	my @rows;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$session->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM outside');
	push @rows, split(/\n/, $session->query_safe('FETCH 1000 FROM c'));
	foreach my $round (1 .. 3)
	{
		$code->();
		push @rows, split(/\n/, $session->query_safe('FETCH 700 FROM c'));
	}
	push @rows, split(/\n/, $session->query_safe('FETCH ALL FROM c'));
	$session->query_safe('COMMIT');

	ok("@rows" eq join(' ', 1 .. $pages),
		"$name: the cursor returns exactly its rows, in order");
	is(scans_of('outside'), $before + 1, "$name: its scan is counted once");
}

sub error_in_where
{
	my $before = scans_of('inside');

	foreach my $at (1, 2, 500, $pages - 1, $pages)
	{
		fails(
			$session,
			"SELECT sum(id) FROM inside WHERE fail_at(id, $at)",
			qr/ERROR:  row $at$/m,
			"error in WHERE at row $at");
		nothing_is_pinned($node, 'inside', "error in WHERE at row $at");
	}
	is($session->query_safe('SELECT sum(id) FROM inside'),
		$sum, 'error in WHERE: the session goes on');
	# rows 1 and 2 are among the first blocks, which the server reads
	is( scans_of('inside'),
		$before + 4,
		'error in WHERE: those with a ring are counted');
	is(counters($node, 'inside', 'escapes_pinned'),
		'0', 'error in WHERE: nothing escaped because it was left pinned');
}

sub caught_error_beside_a_cursor
{
	my $before = scans_of('inside');

	beside_a_cursor(
		'caught error',
		sub {
			is($session->query_safe('SELECT scan_and_catch(5, 300)'),
				'row 305', 'caught error: as expected');
		});
	is( scans_of('inside'),
		$before + 15,
		'caught error: the scans that failed are counted');
}

sub nested_errors_beside_a_cursor
{
	my $before = scans_of('inside');
	my $rows = 4 * $pages + 1000000;

	beside_a_cursor(
		'nested errors',
		sub {
			is($session->query_safe('SELECT scan_in_scan(4, 900)'),
				$rows,
				'nested errors: the outer scans read on, to their end');
		});
	is( scans_of('inside'),
		$before + 15,
		'nested errors: all scans are counted');
}

sub abandoned_in_a_function
{
	my $before = scans_of('inside');

	beside_a_cursor(
		'scan left in its middle',
		sub {
			is($session->query_safe('SELECT leave_scan(77)'),
				'77', 'scan left in its middle: as expected');
		});
	is(scans_of('inside'), $before + 3, 'scan left in its middle: counted');
}

# Whole scans, called for some rows of another one.
sub scan_for_each_row
{
	my $before = scans_of('inside');

	is( $session->query_safe(
			'SELECT count(*), min(s), max(s) FROM (SELECT CASE WHEN id % 1000 = 0 THEN scan_all() END s FROM outside) o'
		),
		"$pages|$sum|$sum",
		'scan for each row: sums');
	is(scans_of('inside'), $before + 4, 'scan for each row: counted');
}

sub cursors_abandoned_at_end_of_transaction
{
	foreach my $end (qw(COMMIT ROLLBACK), 'SELECT 1/0; ROLLBACK')
	{
		my ($outside, $inside) = (scans_of('outside'), scans_of('inside'));

		$session->query(
			qq(
BEGIN;
DECLARE untouched CURSOR FOR SELECT id FROM outside;
DECLARE begun CURSOR FOR SELECT id FROM outside;
DECLARE ended CURSOR FOR SELECT id FROM outside;
DECLARE beyond SCROLL CURSOR FOR SELECT id FROM inside;
MOVE 1500 FROM begun;
MOVE ALL FROM ended;
MOVE ALL FROM beyond;
MOVE BACKWARD 10 FROM beyond;
$end;));
		$session->{stderr} = '';
		nothing_is_pinned($node, $_, "abandoned at $end")
		  foreach qw(outside inside);
		is( scans_of('outside'),
			$outside + 2,
			"abandoned at $end: cursors that were fetched from are counted");
		is($session->query_safe('SELECT sum(id) FROM inside'),
			$sum, "abandoned at $end: the session goes on");
		cmp_ok(
			scans_of('inside'), '>=',
			$inside + 2,
			"abandoned at $end: so do its counters");
	}
}

sub cursors_abandoned_at_savepoint
{
	beside_a_cursor(
		'ROLLBACK TO SAVEPOINT',
		sub {
			my $before = scans_of('inside');

			$session->query_safe(
				q(
SAVEPOINT s1;
DECLARE c1 CURSOR FOR SELECT id FROM inside;
MOVE 800 FROM c1;
SAVEPOINT s2;
DECLARE c2 CURSOR FOR SELECT id FROM inside;
MOVE 900 FROM c2;
MOVE 100 FROM c1;
ROLLBACK TO SAVEPOINT s2;));
			is( scans_of('inside'),
				$before + 1,
				'ROLLBACK TO SAVEPOINT: its cursor is counted');
			is($session->query_safe('FETCH 1 FROM c1'),
				'901',
				'ROLLBACK TO SAVEPOINT: a cursor from before it goes on');
			$session->query_safe('ROLLBACK TO SAVEPOINT s1');
			is( scans_of('inside'),
				$before + 2,
				'ROLLBACK TO SAVEPOINT: that one, too, when it goes');
			nothing_is_pinned($node, 'inside', 'ROLLBACK TO SAVEPOINT');
		});
}

# What a query has counted is seen by others, even if each transaction is rolled
# back, and although the session never reads the statistics itself.
sub counted_by_a_session_that_never_commits
{
	my $other = session($node);
	my $before = scans_of('inside');

	$other->query_safe('BEGIN; SELECT sum(id) FROM inside; ROLLBACK')
	  foreach 1 .. 2;
	is(scans_of('inside'), $before + 2, 'rolled back: counted');
	$other->quit;
}

# All scans of a query that fails are seen by others at once, and are counted
# once, also after the session's next transaction.
sub counted_when_a_query_fails
{
	my $other = session($node);
	my ($outside, $inside) = (scans_of('outside'), scans_of('inside'));

	fails(
		$other,
		'SELECT (SELECT sum(id) FROM outside), (SELECT sum(id) FROM inside), (SELECT sum(id) FROM inside WHERE fail_at(id, 3000))',
		qr/ERROR:  row 3000$/m,
		'a query with three scans fails');
	foreach my $when ('at once', 'after the next transaction')
	{
		is( join('|',
				scans_of('outside') - $outside,
				scans_of('inside') - $inside),
			'1|2',
			"a query with three scans fails: counted, $when");
		$other->query_safe('SELECT FROM pg_ringctl_stats_info');
	}
	$other->quit;
}

sub held_cursors
{
	my ($outside, $inside) = (scans_of('outside'), scans_of('inside'));

	$session->query_safe(
		q(
BEGIN;
DECLARE held1 CURSOR WITH HOLD FOR SELECT id FROM outside;
DECLARE held2 SCROLL CURSOR WITH HOLD FOR SELECT id FROM inside;
MOVE 1000 FROM held1;
MOVE 1000 FROM held2;
COMMIT;));
	is( join('|',
			scans_of('outside') - $outside,
			scans_of('inside') - $inside),
		'2|2',
		'held cursors: stored at COMMIT, which scans again from the start');
	nothing_is_pinned($node, $_, 'held cursors') foreach qw(outside inside);
	is( $session->query_safe(
			'FETCH 2 FROM held1; FETCH BACKWARD 2 FROM held2'),
		"1001\n1002\n999\n998",
		'held cursors: go on after COMMIT');

	# One that cannot be stored.
	fails(
		$session, q(
BEGIN;
DECLARE held3 CURSOR WITH HOLD FOR SELECT id FROM outside WHERE fail_at(id, 3000);
MOVE 1000 FROM held3;
COMMIT;), qr/ERROR:  row 3000$/m, 'held cursor that fails at COMMIT');
	is( $session->query_safe('FETCH 1 FROM held1; CLOSE held1; CLOSE held2'),
		'1003', 'held cursor that fails at COMMIT: others go on');
	is( scans_of('outside'),
		$outside + 4,
		'held cursor that fails at COMMIT: counted');
	nothing_is_pinned($node, 'outside', 'held cursor that fails at COMMIT');
}
