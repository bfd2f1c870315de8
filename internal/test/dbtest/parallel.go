package dbtest

import (
	"flag"
	"runtime"
	"strconv"
)

// Parallel lets at least n tests of a package run at a time, unless a flag says otherwise. Tests that wait for databases and other
// processes leave processors idle if only as many run at a time as there are processors. Call it from TestMain.
func Parallel(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given || n <= runtime.GOMAXPROCS(0) {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}
