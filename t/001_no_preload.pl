# Claims: the server does not have to be restarted or reconfigured.  In a running
# cluster, CREATE EXTENSION works for the session that runs it, and
# session_preload_libraries of a database for every later session.  So do the
# database's settings: "observe" only counts what the server does; after RESET,
# pg_ringctl controls the rings.  CREATE EXTENSION does not use what other users have made in the schema
# before.

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
$node->start;
load_table($node, $_, $pages) foreach qw(big controlled observed reset);

my $early = session($node);
create_extension_in_running_cluster();
session_that_was_there_before();
session_preload_libraries_of_a_database();
other_databases_are_left_alone();
observe_for_a_database();
control_after_reset();
one_library_of_several();
what_others_have_planted();
library_that_is_missing();
rows_add_up($node, 'at the end');

$early->quit;
$node->stop;
log_is_clean($node, 'no preload');
done_testing();


sub create_extension_in_running_cluster
{
	my $session = session($node);

	is($session->query_safe('SELECT sum(id) FROM big'),
		$sum, 'a scan before CREATE EXTENSION');
	$session->query_safe('CREATE EXTENSION pg_ringctl');
	is(counters($node, 'big', 'scans'), '', 'was not counted');

	is($session->query_safe('SELECT sum(id) FROM big'),
		$sum, 'a scan in the session that ran CREATE EXTENSION');
	is(counters($node, 'big', 'scans, blocks, ring_buffers > 0'),
		"1|$pages|t", 'has a ring and is counted');
	$session->quit;
}

sub session_that_was_there_before
{
	is($early->query_safe('SELECT sum(id) FROM big'),
		$sum, 'a scan in a session without the library');
	is(counters($node, 'big', 'scans'), '1', 'is not counted');

	is($early->query_safe('SELECT count(*) FROM pg_ringctl_stats'),
		'1', 'such a session sees the counters');
	is($early->query_safe('SELECT sum(id) FROM big'),
		$sum, 'a scan after the session has called one of the functions');
	is(counters($node, 'big', 'scans'), '2', 'is counted');
}

sub session_preload_libraries_of_a_database
{
	$node->safe_psql('postgres',
		"ALTER DATABASE postgres SET session_preload_libraries = 'pg_ringctl'"
	);
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM controlled'),
		$sum, 'a scan in a session that preloads the library');
	is( counters(
			$node,
			'controlled',
			'scans, blocks, escapes_pinned + escapes_dirty, ring_buffers > 0'
		),
		"1|$pages|0|t",
		'has a ring that nothing escapes from');
}

sub other_databases_are_left_alone
{
	$node->safe_psql('postgres', 'CREATE DATABASE other');
	load_table($node, 'elsewhere', $pages, 'other');
	is($node->safe_psql('other', 'SELECT sum(id) FROM elsewhere'),
		$sum, 'a scan in a database without the setting');
	is( $node->safe_psql(
			'postgres',
			"SELECT count(*) FROM pg_ringctl_stats WHERE datname = 'other'"),
		'0',
		'is not counted');

	$node->safe_psql('other',
		"LOAD 'pg_ringctl'; SELECT sum(id) FROM elsewhere");
	is( $node->safe_psql(
			'postgres', q(
SELECT kind, scans, relname IS NULL, relid IS NOT NULL
  FROM pg_ringctl_stats WHERE datname = 'other')),
		'seqscan|1|t|t',
		'after LOAD it is, and seen from here, without its name');
}

sub observe_for_a_database
{
	$node->safe_psql('postgres',
		"ALTER DATABASE postgres SET pg_ringctl.mode = 'observe'");
	is($node->safe_psql('postgres', 'SHOW pg_ringctl.mode'),
		'observe', 'new sessions observe');
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM observed'),
		$sum, 'a scan that is observed');
	is( counters(
			$node, 'observed',
			'scans, blocks, escapes_dirty > 0, wal_flushes'),
		"1|$pages|t|0",
		'leaves its dirty pages behind, as the server does');
}

sub control_after_reset
{
	$node->safe_psql('postgres',
		'ALTER DATABASE postgres RESET pg_ringctl.mode');
	is($node->safe_psql('postgres', 'SHOW pg_ringctl.mode'),
		'control', 'new sessions control');
	is($node->safe_psql('postgres', 'SELECT sum(id) FROM reset'),
		$sum, 'a scan that is controlled');
	is(counters($node, 'reset', 'scans, blocks, escapes_dirty'),
		"1|$pages|0", 'leaves none');
}

sub one_library_of_several
{
	$node->safe_psql('postgres',
		"ALTER DATABASE other SET session_preload_libraries = 'pg_buffercache', 'pg_ringctl'"
	);
	is( $node->safe_psql(
			'other', 'SELECT sum(id) FROM elsewhere; SHOW pg_ringctl.mode'),
		"$sum\ncontrol",
		'a scan in a session that preloads two libraries');
	is( $node->safe_psql(
			'postgres',
			"SELECT scans FROM pg_ringctl_stats WHERE datname = 'other'"),
		'2',
		'is counted');
}

# Who may create in the schema before the extension is there could wait with
# what fits better than what it means: a function, and every operator of two
# types for which the server has none but by a cast.
sub what_others_have_planted
{
	$node->safe_psql('postgres', 'CREATE DATABASE planted');
	$node->safe_psql(
		'planted', q(
SET search_path = pg_catalog;
CREATE FUNCTION public.pg_ringctl_drop_policy(oid) RETURNS boolean LANGUAGE sql RETURN false;
DO $$
DECLARE
    types regtype[] := ARRAY[16, 19, 20, 21, 23, 25, 26, 700, 701, 1184, 1186, 1700, 2205];
    names text[] := '{=,<>,<,>,<=,>=,+,-,*,/,%,||}';
    l regtype;
    r regtype;
    n text;
BEGIN
    FOREACH l IN ARRAY types LOOP
        FOREACH r IN ARRAY types LOOP
            EXECUTE format('CREATE FUNCTION public.planted(%s, %s) RETURNS boolean LANGUAGE sql RETURN false', l, r);
            FOREACH n IN ARRAY names LOOP
                IF NOT EXISTS (SELECT FROM pg_operator WHERE (oprname, oprleft, oprright) = (n, l::oid, r::oid)) THEN
                    EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.planted)',
                                   n, l, r);
                END IF;
            END LOOP;
        END LOOP;
    END LOOP;
END $$;
RESET search_path;
CREATE EXTENSION pg_ringctl;
DROP FUNCTION pg_ringctl_drop_policy(oid)));
	is( $node->safe_psql(
			'planted', q(
SET search_path = pg_catalog;
SELECT count(*) > 500 AND count(*) FILTER (WHERE oprleft = 26 AND oprright = 2205) = 12
  FROM pg_operator WHERE oprnamespace = 2200;
SELECT pg_describe_object(d.classid, d.objid, 0), o.oprname, o.oprleft::regtype, o.oprright::regtype
  FROM pg_depend d JOIN pg_operator o ON d.refclassid = 2617 AND d.refobjid = o.oid
 WHERE o.oprnamespace = 2200)),
		't',
		'nothing of what was planted is used');
	is( $node->safe_psql('planted', 'SELECT pg_ringctl_drop_all_policies()'),
		'0',
		'and all policies can be dropped');
}

# Two names in one pair of quotes are one file, which nobody finds; who sets the
# list himself gets in.
sub library_that_is_missing
{
	my $preload = 'ALTER DATABASE locked %s session_preload_libraries';
	my ($out, $err);

	$node->safe_psql('postgres', $_)
	  foreach ('CREATE DATABASE locked',
		sprintf($preload, 'SET') . " = 'pg_ringctl, pg_buffercache'");
	$node->psql('locked', 'SELECT 1', stdout => \$out, stderr => \$err);
	like(
		$err,
		qr/could not access file "pg_ringctl, pg_buffercache"/,
		'a list with too few quotes: nobody can connect');
	{
		local $ENV{PGOPTIONS} = '-c session_preload_libraries=';
		$node->safe_psql('locked', sprintf($preload, 'RESET'));
	}
	is($node->safe_psql('locked', 'SELECT 1'),
		'1', 'and after a RESET all can');
}
