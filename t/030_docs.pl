# Claims: the SQL commands in the guide, in "What goes through a ring" and in
# "Operations" work, in the order in which they stand there.
#
# Each section has a new database with the tables that these pages speak of.  The
# README, the reference and "More than one server" have tests of their own.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlTest;

# The pages, and how many commands each has at least.
my @pages = ([ 'guide', 30 ], [ 'readers', 6 ], [ 'operations', 12 ]);
my $node = new_node('main');
my $rows = $node->basedir . '/orders.csv';

$node->start;
make_tables();
foreach (@pages)
{
	my ($page, $least) = @$_;
	my $commands = 0;

	foreach my $section (sections($page))
	{
		my ($title, @found) = @$section;

		works("$page, $title", @found) if @found;
		$commands += @found;
	}
	cmp_ok($commands, '>=', $least, "$page: the commands are found");
}
$node->stop;
log_is_clean($node, 'docs');
done_testing();


sub make_tables
{
	$node->safe_psql('postgres',
		'CREATE DATABASE template_of_app; CREATE ROLE dba; CREATE ROLE backup'
	);
	$node->safe_psql(
		'template_of_app', qq(
CREATE EXTENSION pg_buffercache;
CREATE TABLE orders AS SELECT n AS id, n % 100 AS customer, repeat('x', 900) AS note FROM generate_series(1, 40000) n;
CREATE TABLE archive AS SELECT * FROM orders LIMIT 100;
CREATE TABLE dimension AS TABLE archive;
CREATE TABLE hot AS TABLE archive;
CREATE TABLE events (id integer) PARTITION BY RANGE (id);
CREATE TABLE events_1 PARTITION OF events FOR VALUES FROM (0) TO (1000);
COPY orders TO '$rows' (FORMAT csv)));
}

# The sections of a page, each with its title and its commands.
sub sections
{
	my ($page) = @_;
	my @found;

	foreach
	  my $line (split(/\n/, slurp_file("$FindBin::RealBin/../docs/$page.md")))
	{
		if ($line =~ /^## (.*)/)
		{
			push @found, [$1];
		}
		elsif ($line =~
			/^    ((?:SELECT|SET|EXPLAIN|ALTER|CREATE|GRANT|LOAD|COPY) .*)/)
		{
			push @{ $found[-1] }, $1;
		}
		elsif ($line =~ /^      (FROM .*)/)
		{
			$found[-1][-1] .= " $1";
		}
	}
	return @found;
}

# The commands work, one after the other in one session.  From 18 on EXPLAIN has an
# option.
sub works
{
	my ($name, @commands) = @_;
	my ($out, $err);

	@commands = grep { !/^EXPLAIN/ } @commands if $node->pg_version < 18;
	s/'\/tmp\/orders.csv'/'$rows'/ foreach @commands;
	$node->safe_psql('postgres', $_)
	  foreach ('DROP DATABASE IF EXISTS app',
		'CREATE DATABASE app TEMPLATE template_of_app STRATEGY file_copy');
	$node->safe_psql('app', 'CREATE EXTENSION pg_ringctl')
	  if !grep { /^CREATE EXTENSION/ } @commands;

	local $ENV{PGOPTIONS} = '-c session_preload_libraries=pg_ringctl';
	my $status = $node->psql(
		'app',
		join("\n", @commands, ''),
		on_error_die => 0,
		on_error_stop => 1,
		stdout => \$out,
		stderr => \$err);
	is($status, 0, "$name: " . @commands . ' commands') or diag($err);
}
