# Claims: the queries in monitoring/ are the same for all programs; they work for a
# member of pg_monitor, before any session has the library, on a standby, and, where
# they say so, without the extension; they tell what leaks; and they give no more
# rows than they say, however many relations there are.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib $FindBin::RealBin;

use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use RingctlMonitoring;
use RingctlTest;

plan skip_all => 'the Perl module CPAN::Meta::YAML is missing'
  if !eval { require CPAN::Meta::YAML };

my $pages = 4000;
my $queries = postgres_exporter_queries();
my $primary = new_node('primary', allows_streaming => 1);
my $standby = PostgreSQL::Test::Cluster->new('standby');

same_queries();
start();
before_any_session_has_the_library();
all_counters();
without_the_extension();
settings();
what_leaks();
many_relations();
on_the_standby();

foreach my $node ($standby, $primary)
{
	$node->stop;
	log_is_clean($node, $node->name);
}
done_testing();


# White space aside, and the tags and the time of pgwatch.
sub plain
{
	my ($sql) = @_;

	$sql =~ s/\(extract\(epoch FROM now\(\)\) \* 1e9\)::bigint AS epoch_ns,//;
	$sql =~ s/\b(\w+) AS tag_\1\b/$1/g;
	$sql =~ s/ AS tag_/ AS /g;
	$sql =~ s/\s+/ /g;
	return $sql;
}

sub same_queries
{
	my $sql_exporter = sql_exporter_queries();
	my $pgwatch = pgwatch_queries();

	is_deeply(
		[ sort keys %$sql_exporter ],
		[ sort keys %$queries ],
		'sql_exporter has the queries');
	is_deeply(
		[ sort keys %$pgwatch ],
		[ sort keys %$queries ],
		'pgwatch has the queries');
	foreach my $name (sort keys %$queries)
	{
		my $query = $queries->{$name};
		my @counters = grep { /_total$/ } @{ $query->{values} };
		my @gauges = grep { !/_total$/ } @{ $query->{values} };

		is_deeply($query->{counters}, \@counters,
			"$name: counters, and nothing else, are named _total");
		is_deeply(
			{
				%{ $sql_exporter->{$name} },
				sql => plain($sql_exporter->{$name}{sql})
			},
			{
				sql => plain($query->{sql}),
				labels => $query->{labels},
				values => $query->{values}
			},
			"$name: sql_exporter has the same");
		is_deeply(
			{ %{ $pgwatch->{$name} }, sql => plain($pgwatch->{$name}{sql}) },
			{ sql => plain($query->{sql}), gauges => \@gauges },
			"$name: pgwatch has the same");
	}
}

sub start
{
	$primary->start;
	create_monitor($primary);
	$primary->safe_psql('postgres', "CREATE DATABASE $_")
	  foreach qw(tight loose without);
	$primary->safe_psql($_, 'CREATE EXTENSION pg_ringctl')
	  foreach qw(tight loose);
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->start;
}

# What a query gives to the monitor: a list of rows, each a hash.
sub rows
{
	my ($node, $database, $sql) = @_;

	local $ENV{PGUSER} = 'monitor';
	return map { decode_json($_) }
	  split(/\n/,
		$node->safe_psql($database, "SELECT row_to_json(q) FROM ($sql) AS q")
	  );
}

# A query has the columns that it names, with a number in each but the labels, and
# pgwatch gets as many rows.
sub works
{
	my ($node, $database, $name, $what) = @_;
	my $query = $queries->{$name};
	my $pgwatch = pgwatch_queries()->{$name}{sql};
	my $columns =
	  join(' ', sort @{ $query->{labels} }, @{ $query->{values} });
	my @wrong;
	my @rows;

	if (!eval { @rows = rows($node, $database, $query->{sql}); 1 })
	{
		push @wrong, $@;
	}
	foreach my $row (@rows)
	{
		push @wrong, 'columns: ' . join(' ', sort keys %$row)
		  if join(' ', sort keys %$row) ne $columns;
		push @wrong, map { "$_: $row->{$_}" }
		  grep { ($row->{$_} // 'null') !~ /^-?\d+(\.\d+)?(e-?\d+)?$/ }
		  @{ $query->{values} };
	}
	push @wrong, 'other rows for pgwatch'
	  if !@wrong && rows($node, $database, $pgwatch) != @rows;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("@wrong", '', "$what: $name");
	return @rows;
}

# The value of a column in the row with these labels.
sub value
{
	my ($node, $database, $name, $column, %labels) = @_;
	my @rows = grep {
		my $row = $_;
		!grep { $row->{$_} ne $labels{$_} } keys %labels
	} rows($node, $database, $queries->{$name}{sql});

	return @rows == 1 ? $rows[0]{$column} : scalar(@rows) . ' rows';
}

sub before_any_session_has_the_library
{
	foreach my $node ($primary, $standby)
	{
		$primary->wait_for_replay_catchup($standby) if $node == $standby;
		foreach my $name (sort keys %$queries)
		{
			my @rows = works($node, 'tight', $name,
				$node->name . ', nobody has the library');

			is( @rows > 0,
				$name ne 'pg_ringctl_relation',
				$node->name . ": $name: rows there, but for relations");
		}
	}
	is( value(
			$primary, 'tight',
			'pg_ringctl_database', 'escapes_dirty_total',
			kind => 'seqscan'),
		0,
		'a counter is there before it counts');
}

# A new counter of the view is to be seen, too.
sub all_counters
{
	my @counters = split(
		/\n/,
		$primary->safe_psql(
			'tight', q(
SELECT attname FROM pg_attribute
 WHERE attrelid = 'pg_ringctl_stats'::regclass AND attnum > 0
       AND (atttypid = 'bigint'::regtype OR attname ~ '_time$'))));

	is( join(' ',
			grep { $queries->{pg_ringctl_database}{sql} !~ /\bsum\($_\)/ }
			  @counters),
		'',
		'no counter of pg_ringctl_stats is left out');
	cmp_ok(scalar(@counters), '>', 15, 'of the many that there are');
}

sub without_the_extension
{
	works($primary, 'without', $_, 'without the extension')
	  foreach qw(pg_ringctl pg_ringctl_neighbours);
	is(value($primary, 'without', 'pg_ringctl', 'extension_created'),
		0, 'that it is not created');
}

sub session_of_monitor
{
	local $ENV{PGUSER} = 'monitor';
	return session($primary, 'tight');
}

# The settings are those of new sessions, whatever this session has.
sub settings
{
	my $sql = $queries->{pg_ringctl}{sql};
	my $session = session_of_monitor();
	my $see = sub {
		my ($name, @commands) = @_;
		my $expected = pop @commands;

		$primary->safe_psql('postgres', $_) foreach @commands;
		is($session->query_safe("SELECT preloaded, mode FROM ($sql) AS q"),
			$expected, "settings: $name");
	};

	$see->('nothing is set', '0|2');
	$see->(
		'the database preloads it',
		q(ALTER DATABASE tight SET session_preload_libraries = 'auto_explain', 'pg_ringctl'),
		'1|2');
	$see->(
		'and only observes',
		q(ALTER DATABASE tight SET pg_ringctl.mode = observe), '1|1');
	$session->quit;
	$session = session_of_monitor();
	$see->('the same for a new session', '1|1');
	$see->('no longer', q(ALTER DATABASE tight RESET pg_ringctl.mode), '1|2');
	$see->(
		'nor is it preloaded',
		q(ALTER DATABASE tight RESET session_preload_libraries), '0|2');
	$see->(
		'a user preloads it',
		q(ALTER ROLE monitor SET session_preload_libraries = '$libdir/pg_ringctl'),
		'1|2');
	$see->(
		'the users of another database do',
		'ALTER ROLE monitor RESET ALL',
		'ALTER DATABASE loose SET session_preload_libraries = pg_ringctl',
		'0|2');
	$see->(
		'another library',
		'ALTER ROLE monitor IN DATABASE without SET session_preload_libraries = pg_ringctl',
		'ALTER ROLE monitor IN DATABASE tight SET session_preload_libraries = pg_ringctl_not',
		'0|2');
	$primary->safe_psql('postgres',
		"ALTER ROLE monitor IN DATABASE $_ RESET ALL")
	  foreach qw(tight without);
	$session->quit;

	$primary->safe_psql('postgres',
		'ALTER DATABASE tight SET session_preload_libraries = pg_ringctl');
	$primary->safe_psql('postgres',
		'ALTER DATABASE loose SET pg_ringctl.mode = observe');
	is(value($primary, 'tight', 'pg_ringctl', 'enabled'),
		1, 'settings: enabled');
	switch ($primary, 'off');
	is(value($primary, 'tight', 'pg_ringctl', 'enabled'),
		0, 'settings: the kill switch');

	# Without the library, a parameter that was reset has the value ''.
	$primary->safe_psql('postgres', 'ALTER SYSTEM RESET pg_ringctl.enabled');
	reload($primary, 'pg_ringctl.enabled', '');
	is(value($primary, 'without', 'pg_ringctl', 'enabled'),
		1, 'settings: the kill switch was reset');
	$primary->safe_psql('postgres',
		'ALTER SYSTEM SET pg_ringctl.mode = observe');
	reload($primary, 'pg_ringctl.mode', 'observe');
	is(value($primary, 'without', 'pg_ringctl', 'mode'),
		1, 'settings: the server observes, seen without the library');
	$primary->safe_psql('postgres', 'ALTER SYSTEM RESET pg_ringctl.mode');
	reload($primary, 'pg_ringctl.mode', '');
	is(value($primary, 'without', 'pg_ringctl', 'mode'),
		2, 'settings: the server controls again');
}

sub leaked
{
	my ($database, $name, %labels) = @_;

	return value($primary, $database, $name, 'escapes_dirty_total', %labels)
	  + value($primary, $database, $name, 'escapes_pinned_total', %labels);
}

sub blocks
{
	my ($node, $database, %labels) = @_;

	return value($node, $database, 'pg_ringctl_relation',
		'blocks_read_total', %labels) +
	  value($node, $database, 'pg_ringctl_relation', 'blocks_hit_total',
		%labels);
}

# The first scan after a load leaks in the one database, and not in the other.
sub what_leaks
{
	foreach my $database (qw(tight loose))
	{
		my %big = (relname => 'big', kind => 'seqscan');

		load_table($primary, 'big', $pages, $database);
		$primary->safe_psql($database, 'SELECT sum(id) FROM big');
		works($primary, $database, $_, "$database, one scan")
		  foreach sort keys %$queries;
		cmp_ok(
			blocks($primary, $database, %big),
			'>=',
			$pages - 32,
			"$database: its blocks are seen, but for the first ones");
		is( leaked($database, 'pg_ringctl_database', kind => 'seqscan'),
			leaked($database, 'pg_ringctl_relation', %big),
			"$database: what leaked is the one relation's");
	}
	is(leaked('tight', 'pg_ringctl_database', kind => 'seqscan'),
		0, 'tight: nothing leaked');
	cmp_ok(leaked('loose', 'pg_ringctl_database', kind => 'seqscan'),
		'>', $pages / 2, 'loose: much leaked');
	cmp_ok(
		value(
			$primary, 'loose',
			'pg_ringctl_pool', 'escaped_bytes',
			relname => 'big'),
		'>', 0,
		'loose: and is seen in shared buffers');
	cmp_ok(
		value(
			$primary, 'loose', 'pg_ringctl_neighbours', 'blocks_read_total'),
		'<', $pages,
		'reads through rings are not the neighbours\'');

	# A ring in use, and a relation that goes.
	my $session = session($primary, 'tight');
	$session->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 1000 FROM c');
	is(value($primary, 'tight', 'pg_ringctl_rings', 'active'),
		1, 'a ring in use is seen');
	cmp_ok(value($primary, 'tight', 'pg_ringctl_rings', 'occupied_bytes'),
		'>', 0, 'and what it holds');
	is(value($primary, 'loose', 'pg_ringctl_rings', 'active'),
		0, 'in its own database');
	$session->query_safe('COMMIT');
	$session->quit;
	my $before = leaked('loose', 'pg_ringctl_database', kind => 'seqscan');
	$primary->safe_psql('loose', 'DROP TABLE big');
	is(leaked('loose', 'pg_ringctl_database', kind => 'seqscan'),
		$before,
		'no counter of the database falls when a relation is dropped');
}

sub many_relations
{
	$primary->safe_psql(
		'tight', q(
SET pg_ringctl.scan_threshold = 0;
DO $$
BEGIN
    FOR n IN 1 .. 40 LOOP
        EXECUTE format('CREATE TABLE many_%s AS SELECT repeat(%L, 1000) AS filler FROM generate_series(1, %s)', n, 'x', 7 * n + 700);
        EXECUTE format('SELECT count(*) FROM many_%s', n);
        PERFORM FROM pg_ringctl_prewarm(format('many_%s', n)::regclass, '128kB');
    END LOOP;
END $$));
	is( $primary->safe_psql(
			'tight', 'SELECT count(*) > 40 FROM pg_ringctl_stats'),
		't',
		'more than 40 rows of statistics');
	is( scalar(
			works($primary, 'tight', 'pg_ringctl_relation', 'many relations')
		),
		20,
		'20 rows of relations');
	is( scalar(
			works($primary, 'tight', 'pg_ringctl_database', 'many relations')
		),
		2,
		'2 rows of kinds');

	my @pool = works($primary, 'tight', 'pg_ringctl_pool', 'many relations');
	is(scalar(@pool), 21, '20 relations in shared buffers, and the others');
	is( scalar(
			grep { $_->{relname} eq '(others)' && $_->{schemaname} eq '' }
			  @pool),
		1,
		'of which there is one row');
	is( value(
			$primary, 'tight', 'pg_ringctl_pool', 'bytes',
			relname => '(others)'
		) + sum_of('bytes', grep { $_->{relname} ne '(others)' } @pool),
		$primary->safe_psql(
			'tight',
			q(SELECT 8192 * sum(buffers) FROM pg_ringctl_pollution WHERE datname = 'tight')
		),
		'nothing in shared buffers is left out');
}

sub sum_of
{
	my ($column, @rows) = @_;
	my $sum = 0;

	$sum += $_->{$column} foreach @rows;
	return $sum;
}

sub on_the_standby
{
	$primary->wait_for_replay_catchup($standby);
	$standby->safe_psql('tight', 'SELECT sum(id) FROM big');
	works($standby, 'tight', $_, 'standby, one scan')
	  foreach sort keys %$queries;
	cmp_ok(
		blocks($standby, 'tight', relname => 'big', kind => 'seqscan'),
		'>=',
		$pages - 32,
		'standby: the blocks of its own scan are seen');
}
