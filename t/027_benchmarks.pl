# Claims: docs/benchmarks.md is what bench/summary makes of the pages of the cases, no page is too
# long, and no file of the documentation is too large.

use strict;
use warnings FATAL => 'all';

use FindBin;

use PostgreSQL::Test::Utils;
use Test::More;

my $root = "$FindBin::RealBin/..";

plan skip_all => 'there is no python3'
  if system('python3 -c "" 2>/dev/null') != 0;
my ($out, $err) =
  run_command([ 'python3', "$root/bench/summary", "$root/docs", '--check' ]);
is("$out$err", '', 'bench/summary --check has nothing to say');
done_testing();
