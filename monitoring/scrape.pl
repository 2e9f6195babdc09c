# Run by monitoring/check, which says where the programs are.
#
# Claims: through either exporter Prometheus has the same metrics, with the server's
# values; every rule and every panel works on them; an alert comes where it has to,
# and nowhere else; the dashboard is what Grafana's schema asks for; pgwatch stores
# every metric.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../t";

use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use RingctlMonitoring;
use RingctlTest;

my $pages = 4000;
my $folder = monitoring_folder();
my $temp = PostgreSQL::Test::Utils::tempdir;
my $http = HTTP::Tiny->new(timeout => 10);
my %program = map { $_ => $ENV{ uc $_ } // '' }
  qw(promtool prometheus postgres_exporter sql_exporter pgwatch);
my @running;
my @watchers
  ;    # an exporter's name, its port and that of its Prometheus, from when
my $node;

# Also when the test dies, or is told to end.
END
{
	my $rc = $?;

	$_->kill_kill(grace => 5) foreach @running;
	$? = $rc;
}

rules();
schema();
start_server();
start_watchers();
before_the_load();
load();
values_are_the_servers();
metrics_of_both();
alerts_of_the_load();
leaks_in_spite();
panels();
variables();
switched_off();
rules_are_healthy();
pgwatch();
$node->stop('fast');
log_is_clean($node, 'monitoring');
done_testing();


# --- programs ---

sub version
{
	my ($program) = @_;
	my ($out, $err) = run_command([ $program, '--version' ]);

	return "$out $err" =~ /version (\S+)/ ? $1 : 'of unknown version';
}

sub start_program
{
	my ($name, $environment, @command) = @_;

	local %ENV = (%ENV, %$environment);
	push @running,
	  IPC::Run::start(\@command, '<', \undef, '>', "$temp/$name.log", '2>&1');
}

# The text at that address, or nothing.
sub get
{
	my ($port, $path) = @_;
	my $answer = $http->get("http://127.0.0.1:$port$path");

	return $answer->{success} ? $answer->{content} : undef;
}

sub wait_for
{
	my ($what, $condition) = @_;
	my $end = time + 60;

	while (time < $end)
	{
		return 1 if $condition->();
		sleep 0.3;
	}
	diag("$what: not within a minute");
	return 0;
}

sub write_file
{
	my ($name, $text) = @_;

	open(my $file, '>', "$temp/$name") or die "cannot write $name: $!";
	print $file $text;
	close($file);
	return "$temp/$name";
}

# --- what needs no server ---

sub rules
{
  SKIP:
	{
		skip 'promtool is not to be had', 3 if $program{promtool} eq '';
		note('promtool ' . version($program{promtool}));
		command_ok(
			[ $program{promtool}, 'check', 'rules', "$folder/rules.yml" ],
			'promtool check rules');
		command_ok(
			[
				$program{promtool}, 'check',
				'config', "$folder/prometheus.yml"
			],
			'promtool check config');
		command_ok(
			[ $program{promtool}, 'test', 'rules', "$folder/rules_test.yml" ],
			'promtool test rules');
	}
}

sub dashboard
{
	return JSON::PP->new->utf8->canonical->decode(
		slurp_file("$folder/grafana.json"));
}

# The dashboard, and the options of its panels, as constants of the schema's types.
# An enum's values are plain strings in a dashboard.
sub schema
{
	my $dashboard = dashboard();
	my $json = JSON::PP->new->canonical;
	my %options =
	  (stat => 'Stat', timeseries => 'TimeSeries', bargauge => 'BarGauge');
	my @text = (
		'import type { Dashboard, GraphFieldConfig } from "@grafana/schema";',
		map({ qq(import type { Options as $_ } from "\@grafana/schema/dist/esm/raw/composable/$_/panelcfg/x/$options{$_}PanelCfg_types.gen.d.ts";)
			} sort keys %options),
		'type Plain<T> = T extends string ? `${T}` : T extends Array<infer U> ? Array<Plain<U>> :',
		'  T extends object ? { [K in keyof T]: Plain<T[K]> } : T;',
		'export const dashboard: Plain<Dashboard> = '
		  . $json->encode($dashboard) . ';');

	foreach my $panel (grep { exists $options{ $_->{type} } }
		@{ $dashboard->{panels} })
	{
		my $custom = $panel->{fieldConfig}{defaults}{custom};

		push @text,
		  "export const options$panel->{id}: Plain<$panel->{type}> = "
		  . $json->encode($panel->{options}) . ';';
		push @text,
		  "export const custom$panel->{id}: Plain<GraphFieldConfig> = "
		  . $json->encode($custom) . ';'
		  if $custom;
	}

	my %ids = map { $_->{id} => 1 } @{ $dashboard->{panels} };
	is( scalar(keys %ids),
		scalar(@{ $dashboard->{panels} }),
		'each panel has an id of its own');
	is( scalar(
			grep { $_->{type} ne 'row' && !exists $options{ $_->{type} } }
			  @{ $dashboard->{panels} }),
		0,
		'the options of each panel are looked at');
  SKIP:
	{
		my $schema = $ENV{GRAFANA_SCHEMA} // '';

		skip 'npm, or the schema of Grafana, is not to be had', 1
		  if $schema eq '';
		open(my $file, '>', "$schema/dashboard.ts") or die "cannot write: $!";
		binmode($file, ':utf8');
		print $file join("\n", @text), "\n";
		close($file);
		command_ok(
			[
				"$schema/node_modules/.bin/tsc", '--noEmit',
				'--strict', '--skipLibCheck',
				'--module', 'nodenext',
				'--moduleResolution', 'nodenext',
				"$schema/dashboard.ts"
			],
			"the dashboard is of Grafana's schema");
	}
}

# --- the server, the exporters, Prometheus ---

# Two databases: in one pg_ringctl only looks, in the other one it controls.
sub start_server
{
	$node = new_node('main');
	$node->append_conf(
		'postgresql.conf', q(
listen_addresses = '127.0.0.1'
autovacuum = off
));
	$node->start;
	create_monitor($node);
	foreach my $database (qw(loose tight))
	{
		$node->safe_psql('postgres', "CREATE DATABASE $database");
		$node->safe_psql($database, 'CREATE EXTENSION pg_ringctl');
		$node->safe_psql('postgres',
			"ALTER DATABASE $database SET session_preload_libraries = pg_ringctl"
		);
		$node->safe_psql($database,
			"CREATE TABLE hot AS SELECT n AS id, repeat('x', 900) AS filler FROM generate_series(1, 4000) n"
		);
	}
	$node->safe_psql('postgres',
		'ALTER DATABASE loose SET pg_ringctl.mode = observe');
}

sub url
{
	my ($database) = @_;

	return
		'postgres://monitor@127.0.0.1:'
	  . $node->port
	  . "/$database?sslmode=disable";
}

sub start_postgres_exporter
{
	my ($port) = @_;

	start_program(
		'postgres_exporter',
		{ DATA_SOURCE_NAME => url('loose') },
		$program{postgres_exporter},
		"--web.listen-address=127.0.0.1:$port",
		"--extend.query-path=$folder/postgres_exporter.yaml",
		'--disable-default-metrics',
		'--disable-settings-metrics',
		'--auto-discover-databases',
		'--include-databases=loose,tight');
}

# As it comes, but for the connections, and more often.
sub start_sql_exporter
{
	my ($port) = @_;
	my $config = slurp_file("$folder/sql_exporter.yml");
	my $connections =
	  join("\n", map { '      - ' . url($_) } qw(loose tight));

	$config =~ s/^ +- postgres:.*$/$connections/mg;
	$config =~ s/interval: \d+s/interval: 1s/g;
	start_program(
		'sql_exporter',
		{},
		$program{sql_exporter},
		"-web.listen-address=127.0.0.1:$port",
		'-config.file=' . write_file('sql_exporter.yml', $config));
}

# With one job of prometheus.yml.
sub start_prometheus
{
	my ($job, $port, $web_port) = @_;
	my ($head, @jobs) =
	  split(/^(?=  - job_name: )/m, slurp_file("$folder/prometheus.yml"));
	my ($config) = grep { /job_name: $job$/m } @jobs;

	$head =~ s{rules.yml}{$folder/rules.yml};
	$config =~ s/127.0.0.1:\d+/127.0.0.1:$port/;
	start_program(
		"prometheus_$job",
		{},
		$program{prometheus},
		'--config.file='
		  . write_file(
			"prometheus_$job.yml",
			"global: { scrape_interval: 1s, evaluation_interval: 1s }\n$head$config"
		  ),
		"--storage.tsdb.path=$temp/$job",
		"--web.listen-address=127.0.0.1:$web_port");
}

sub start_watchers
{
	my %start = (
		postgres_exporter => \&start_postgres_exporter,
		sql_exporter => \&start_sql_exporter);

	foreach my $exporter (sort keys %start)
	{
		my ($port, $web_port) =
		  map { PostgreSQL::Test::Cluster::get_free_port() } 1 .. 2;

	  SKIP:
		{
			skip "$exporter is not to be had", 1 if $program{$exporter} eq '';
			skip 'Prometheus is not to be had', 1
			  if $program{prometheus} eq '';
			note(   "$exporter "
				  . version($program{$exporter})
				  . ', Prometheus '
				  . version($program{prometheus}));
			$start{$exporter}->($port);
			start_prometheus($exporter, $port, $web_port);
			my $watcher = {
				name => $exporter,
				port => $port,
				web_port => $web_port,
				since => time
			};
			ok( wait_for(
					"$exporter is scraped",
					sub {
						defined get($web_port, '/-/ready')
						  and ask($watcher,
							'count(max_over_time(pg_ringctl_stats_entries[1m])) == 2'
						  );
					}),
				"$exporter: Prometheus has metrics of both databases"
			) or diag(slurp_file("$temp/$exporter.log"));
			push @watchers, $watcher;
		}
	}
}

# --- questions to Prometheus ---

sub api
{
	my ($watcher, $path, %parameters) = @_;
	my $text = get($watcher->{web_port},
		"/api/v1/$path?" . $http->www_form_urlencode(\%parameters));

	return defined $text ? decode_json($text)->{data} : undef;
}

# The samples that this has now: a list of { metric, value }.
sub ask
{
	my ($watcher, $promql) = @_;
	my $data = api($watcher, 'query', query => $promql);

	return defined $data ? @{ $data->{result} } : ();
}

sub value
{
	my ($watcher, $promql) = @_;
	my @samples = ask($watcher, $promql);

	return @samples == 1
	  ? $samples[0]{value}[1]
	  : scalar(@samples) . ' samples';
}

# Both exporters have queried, and Prometheus has scraped and seen the rules, three
# times.
sub settle
{
	sleep 5;
}

# --- the load ---

# There are counters before there is anything to count, so that the first leak shows.
sub before_the_load
{
	settle();
	foreach my $watcher (@watchers)
	{
		is(value($watcher, 'sum(pg_ringctl_database_scans_total)'),
			0, "$watcher->{name}: no scan yet");
		is(scalar(ask($watcher, 'ALERTS')),
			0, "$watcher->{name}: no alert yet");
	}
}

# Two tables, each scanned for the first time, then loaded and scanned anew, when
# they have counters that are known; the neighbours, before and after; a prewarm
# after the other; and a scan that stops half way.
sub load
{
	foreach my $time (1 .. 2)
	{
		foreach my $database (qw(loose tight))
		{
			$node->safe_psql($database, 'SELECT count(*) FROM hot');
			load_table($node, 'big', $pages, $database) if $time == 1;
			$node->safe_psql($database, 'UPDATE big SET id = id; CHECKPOINT')
			  if $time == 2;
			$node->safe_psql($database, 'SELECT sum(id) FROM big');
			$node->safe_psql($database, 'SELECT count(*) FROM hot');
		}
		settle();
	}

	my $session = session($node, 'tight');
	$session->query_safe(
		'BEGIN; DECLARE c CURSOR FOR SELECT id FROM big; MOVE 1000 FROM c');
	$node->safe_psql(
		'tight', q(
DO $$
BEGIN
    FOR n IN 1 .. 100000 LOOP
        EXIT WHEN clock_timestamp() > now() + '6 s';
        PERFORM FROM pg_ringctl_prewarm('big', '128kB');
    END LOOP;
END $$));
	foreach my $watcher (@watchers)
	{
		my $name = $watcher->{name};

		is( value($watcher, 'pg_ringctl_rings_active{datname="tight"} > 0')
			  =~ /^[12]$/,
			1,
			"$name: the ring in use is seen");
		cmp_ok(
			value(
				$watcher, 'max_over_time(pg_ringctl_prewarm_running[2m]) > 0'
			),
			'==', 1,
			"$name: the prewarm was seen");
	}
	$session->query_safe('COMMIT');
	$session->quit;
	settle();
}

sub values_are_the_servers
{
	my %expected = (
		blocks_read_total => 'blks_read',
		escapes_dirty_total => 'escapes_dirty',
		scans_total => 'scans',
		elapsed_seconds_total => 'total_time / 1000');

	foreach my $watcher (@watchers)
	{
		foreach my $database (qw(loose tight))
		{
			foreach my $column (sort keys %expected)
			{
				cmp_ok(
					abs(value($watcher,
							qq(pg_ringctl_relation_$column\{datname="$database",relname="big",kind="seqscan",schemaname="public"})
						) - $node->safe_psql(
							$database,
							"SELECT $expected{$column} FROM pg_ringctl_stats WHERE relname = 'big' AND kind = 'seqscan'"
						)),
					'<', 1e-9,
					"$watcher->{name}: $database: $column");
			}
		}
		cmp_ok(
			value(
				$watcher,
				'pg_ringctl_database_escapes_dirty_total{datname="loose",kind="seqscan"}'
			),
			'>',
			$pages / 2,
			"$watcher->{name}: much leaked");
		is( value(
				$watcher,
				'sum(pg_ringctl_database_escapes_dirty_total{datname="tight"} + pg_ringctl_database_escapes_pinned_total{datname="tight"})'
			),
			0,
			"$watcher->{name}: where pg_ringctl controls, nothing did");
	}
}

# Their names and labels, but for those that an exporter has beside ours.
sub metrics_of_both
{
	my %series;

	foreach my $watcher (@watchers)
	{
		$series{ $watcher->{name} } = [
			sort map {
				my $labels = $_->{metric};
				join(' ',
					map { "$_=$labels->{$_}" }
					  grep { exists $labels->{$_} }
					  qw(__name__ server datname kind))
			} ask(
				$watcher,
				'count by (__name__, server, datname, kind) ({__name__=~"pg_ringctl_.*"})'
			)
		];
	}
  SKIP:
	{
		skip 'not both exporters are to be had', 1 if @watchers < 2;
		is_deeply(
			$series{sql_exporter},
			$series{postgres_exporter},
			'both exporters give the same metrics');
	}

	foreach my $watcher (grep { $_->{name} eq 'postgres_exporter' } @watchers)
	{
	  SKIP:
		{
			skip 'promtool is not to be had', 1 if $program{promtool} eq '';
			my $ours = join('',
				grep { /^(# (HELP|TYPE) )?pg_ringctl/ }
				  split(/^/, get($watcher->{port}, '/metrics')));
			my ($out, $err);

			ok( IPC::Run::run(
					[ $program{promtool}, 'check', 'metrics' ],
					'<', \$ours, '>', \$out, '2>', \$err),
				'promtool check metrics') or diag("$out$err");
		}
	}
}

# --- alerts ---

# The alerts that there are, each with its database.
sub alerts
{
	my ($watcher) = @_;

	return join(' ',
		sort
		  map { "$_->{metric}{alertname}/" . ($_->{metric}{datname} // '') }
		  ask($watcher, 'ALERTS'));
}

# What was to suffer has been made to suffer in a few seconds, where the alert looks
# at minutes: that one is promtool's to test.
sub alerts_of_the_load
{
	foreach my $watcher (@watchers)
	{
		is( alerts($watcher) =~ s/PgRingctlNeighboursSuffer\/ ?//r =~ s/ $//r,
			'PgRingctlServerRingLeaks/loose',
			"$watcher->{name}: the alert of the load, and no other");
		cmp_ok(
			value(
				$watcher,
				'relation:pg_ringctl_leaked_buffers:rate5m{relname="big", datname="loose"}'
			),
			'>', 0,
			"$watcher->{name}: and which relation it is");
	}
}

# Where pg_ringctl controls, but is told to leave dirty pages behind.
sub leaks_in_spite
{
	my $session = session($node, 'tight');

	$session->query_safe($_)
	  foreach 'SET pg_ringctl.dirty_pages = leave', 'UPDATE big SET id = id',
	  'CHECKPOINT', 'SELECT sum(id) FROM big';
	$session->quit;
	foreach my $watcher (@watchers)
	{
		ok( wait_for(
				'the alert',
				sub { alerts($watcher) =~ m{PgRingctlRingLeaks/tight} }),
			"$watcher->{name}: the alert when a ring leaks in spite of pg_ringctl"
		);
	}
}

sub switched_off
{
	$node->safe_psql('postgres',
		'ALTER DATABASE tight SET pg_ringctl.mode = off');
	switch ($node, 'off');
	foreach my $watcher (@watchers)
	{
		ok( wait_for(
				'the alerts',
				sub {
					alerts($watcher) =~
					  m{PgRingctlModeOff/tight.*PgRingctlSwitchedOff/};
				}),
			"$watcher->{name}: the alerts when pg_ringctl is off");
	}
	$node->safe_psql('postgres',
		'ALTER DATABASE tight RESET pg_ringctl.mode');
	switch ($node, 'on');
	foreach my $watcher (@watchers)
	{
		ok( wait_for(
				'the end of the alerts',
				sub { alerts($watcher) !~ /Off/ }),
			"$watcher->{name}: until it is on again");
	}
}

sub rules_are_healthy
{
	foreach my $watcher (@watchers)
	{
		my @rules =
		  map { @{ $_->{rules} } } @{ api($watcher, 'rules')->{groups} };

		cmp_ok(scalar(@rules), '>=', 10, "$watcher->{name}: rules are there");
		is( join(' ',
				map  { "$_->{name}: $_->{lastError}" }
				grep { $_->{health} ne 'ok' } @rules),
			'',
			"$watcher->{name}: and work");
	}
}

# --- the dashboard ---

# For a panel's query: the variables stand for all, and rates are of a short time.
sub promql
{
	my ($expr) = @_;

	$expr =~ s/\$__rate_interval/10s/g;
	$expr =~ s/\$__range/5m/g;
	$expr =~ s/"\$(server|datname)"/".+"/g;
	return $expr;
}

# Every query has a number for some moment since the load began.
sub panels
{
	foreach my $watcher (@watchers)
	{
		foreach
		  my $panel (grep { exists $_->{targets} } @{ dashboard()->{panels} })
		{
			foreach my $target (@{ $panel->{targets} })
			{
				my $data = api(
					$watcher, 'query_range',
					query => promql($target->{expr}),
					start => $watcher->{since},
					end => time,
					step => 1);
				my @numbers = grep { $_->[1] ne 'NaN' }
				  map { @{ $_->{values} } } @{ $data->{result} };

				cmp_ok(scalar(@numbers), '>', 0,
					"$watcher->{name}: panel \"$panel->{title}\", $target->{refId}"
				);
			}
		}
	}
}

sub variables
{
	foreach my $watcher (@watchers)
	{
		foreach my $variable (grep { $_->{type} eq 'query' }
			@{ dashboard()->{templating}{list} })
		{
			my ($series, $label) = promql($variable->{query}{query}) =~
			  /^label_values\((.*), (\w+)\)$/;

			cmp_ok(
				scalar(
					@{
						api($watcher, "label/$label/values",
							'match[]' => $series)
					}),
				'>', 0,
				"$watcher->{name}: variable $variable->{name}");
		}
	}
}

# --- pgwatch ---

sub pgwatch
{
	my @metrics = sort keys %{ pgwatch_queries() };
	my %seen;

  SKIP:
	{
		skip 'pgwatch is not on the PATH', 1 if $program{pgwatch} eq '';
		my $sources = write_file('sources.yaml',
				"- name: tight\n  conn_str: "
			  . url('tight')
			  . "\n  kind: postgres\n  preset_metrics: pg_ringctl\n  is_enabled: true\n"
		);
		start_program(
			'pgwatch',
			{},
			$program{pgwatch},
			"--sources=$sources",
			"--metrics=$folder/pgwatch.yaml",
			"--sink=jsonfile://$temp/pgwatch.json",
			'--web-disable=all');
		wait_for(
			'pgwatch',
			sub {
				return 0 if !-e "$temp/pgwatch.json";
				foreach my $line (
					grep { /^\{.*\}$/ }
					split(/\n/, slurp_file("$temp/pgwatch.json")))
				{
					my $measurement = decode_json($line);

					$seen{ $measurement->{metric} } = 1
					  if @{ $measurement->{data} };
				}
				return !grep { !$seen{$_} } @metrics;
			});
		is( join(' ', grep { $seen{$_} } @metrics),
			join(' ', @metrics),
			'pgwatch stores every metric'
		) or diag(slurp_file("$temp/pgwatch.log"));
	}
}
