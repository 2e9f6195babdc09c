# Claims: the commands in docs/many-nodes.md do, and print, what is shown there: on a
# standby, with logical replication and, where the server has it, with TimescaleDB.
# The workers of a subscription write without a ring of ours, and no policy reaches
# the subscriber.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

my $pages = 4000;
my $primary = new_node('primary', allows_streaming => 'logical');
my $standby = PostgreSQL::Test::Cluster->new('standby');
my $subscriber = new_node('subscriber');
my %steps = read_page();

standbys();
logical_replication();
SKIP:
{
	skip 'this server has no TimescaleDB', 1 if !has_timescaledb();
	timescaledb();
}
$_->stop foreach $subscriber, $standby, $primary;
log_is_clean($_, $_->name) foreach $subscriber, $standby, $primary;
done_testing();


sub standbys
{
	$primary->append_conf('postgresql.conf',
		"session_preload_libraries = 'pg_ringctl'");
	start_with_buffercache($primary);
	$primary->safe_psql('postgres', 'CREATE DATABASE app');
	$primary->safe_psql('app', 'CREATE EXTENSION pg_ringctl');
	load_table($primary, 'orders', $pages, 'app');
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
	run_section('Standbys', primary => $primary, standby => $standby);
}

# The library is loaded in all processes of both sides.
sub logical_replication
{
	$_->append_conf('postgresql.conf',
		"shared_preload_libraries = 'pg_ringctl'")
	  foreach $primary, $subscriber;
	$subscriber->append_conf('postgresql.conf',
		"pg_ringctl.write_ring = '1MB'");
	$primary->restart;
	$subscriber->start;
	$subscriber->safe_psql('postgres', 'CREATE DATABASE app');
	$subscriber->safe_psql('app',
		'CREATE EXTENSION pg_ringctl; CREATE EXTENSION pg_buffercache; CREATE TABLE orders (id integer, filler text) WITH (fillfactor = 10)'
	);
	run_section(
		'Logical replication',
		publisher => $primary,
		subscriber => $subscriber);
	is( $subscriber->safe_psql(
			'app',
			q(SELECT count(*) >= 256 FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('orders'))
		),
		't',
		'the subscriber writes through the ring of the server');
	is( $subscriber->safe_psql(
			'app',
			'SELECT (SELECT count(*) FROM pg_ringctl_stats), (SELECT count(*) FROM pg_ringctl_policies)'
		),
		'0|0',
		'nothing is counted there, and no policy has come');
	is($subscriber->safe_psql('app', 'SELECT sum(id) FROM orders'),
		sum_to($pages), 'all rows are there');
	$subscriber->safe_psql('app', 'DROP SUBSCRIPTION orders');
}

sub has_timescaledb
{
	return $primary->safe_psql('postgres',
		q(SELECT count(*) FROM pg_available_extensions WHERE name = 'timescaledb')
	);
}

sub timescaledb
{
	my $timescale = new_node('timescale');

	$timescale->append_conf(
		'postgresql.conf', q(
shared_preload_libraries = 'timescaledb'
session_preload_libraries = 'pg_ringctl'
timescaledb.telemetry_level = off
));
	$timescale->start;
	$timescale->safe_psql('postgres', 'CREATE DATABASE app');
	$timescale->safe_psql(
		'app', q(
CREATE EXTENSION timescaledb;
CREATE EXTENSION pg_ringctl;
CREATE TABLE metrics (at timestamptz NOT NULL, note text);
SELECT create_hypertable('metrics', 'at', chunk_time_interval => interval '1 day');
INSERT INTO metrics SELECT timestamptz '2026-01-01 00:00Z' + n * interval '1 minute', repeat('x', 900)
  FROM generate_series(0, 3 * 24 * 60 - 1) n));
	run_section('TimescaleDB', timescale => $timescale);
	$timescale->stop;
	log_is_clean($timescale, 'TimescaleDB');
}

# For each section of the page its commands: the server's name, the command, and
# what is shown below it.
sub read_page
{
	my $page = slurp_file("$FindBin::RealBin/../docs/many-nodes.md");
	my %found;
	my $section;

	foreach my $line (split(/\n/, $page))
	{
		if ($line =~ /^## (.*)/)
		{
			$section = $found{$1} = [];
		}
		elsif ($line =~ /^    (\w+)=# (.*)/)
		{
			push @$section, [ $1, $2, '' ];
		}
		elsif ($line =~ /^    (.*)/ && @$section)
		{
			$section->[-1][2] .= "$1\n";
		}
	}
	return %found;
}

sub run_section
{
	my ($section, %nodes) = @_;

	cmp_ok(scalar @{ $steps{$section} },
		'>', 2, "$section: the commands are found");
	foreach my $step (@{ $steps{$section} })
	{
		my ($name, $command, $expected) = @$step;
		my $output = run_step($nodes{$name}, $command);

		if ($expected eq '')
		{
			unlike($output, qr/^ERROR/, "no complaint: $command");
		}
		else
		{
			is($output, $expected, "$name: $command");
		}
	}
}

# Run a command when its server has come as far as the commands before it, and
# return what psql prints.
sub run_step
{
	my ($node, $command) = @_;
	my $publisher = $primary->connstr . ' dbname=app';

	$primary->wait_for_replay_catchup($standby) if $node == $standby;
	$command =~ s/host=publisher dbname=app/$publisher/;
	my ($output, $errors) = run_command(
		[
			'psql', '--no-psqlrc',
			'--dbname' => $node->connstr('app'),
			'--command' => $command
		]);
	$subscriber->wait_for_subscription_sync($primary, 'orders', 'app')
	  if $command =~ /^CREATE SUBSCRIPTION/;
	$output = join("\n", grep { $_ ne '' } $errors, $output) . "\n";
	return $output =~ s/[ ]+$//mgr =~ s/\n+/\n/gr;
}
