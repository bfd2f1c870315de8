package deps

import (
	"go/token"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The rules are worth what their checks find: each must fail on a fault that
// was made for it.

func TestSleepsFinds(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		text string
		want int
	}{
		"plain":    {`import "time"; func f() { time.Sleep(1); go time.Sleep(2) }`, 2},
		"renamed":  {`import clock "time"; func f() { clock.Sleep(1) }`, 1},
		"as value": {`import "time"; var wait = time.Sleep`, 1},
		"another":  {`import "example.com/time"; func f() { x.Sleep(1) }`, 0},
		"bubble": {`import ("time"; "testing/synctest")
			func f() { synctest.Test(nil, func() { time.Sleep(1) }) }`, 0},
		"beside a bubble": {`import ("time"; "testing/synctest")
			func f() { synctest.Test(nil, func() {}); time.Sleep(1) }`, 1},
	}
	for name, tt := range tests {
		tree := parse(t, token.NewFileSet(), source{name, []byte("package p; " + tt.text)})
		if got := len(sleeps(tree)); got != tt.want {
			t.Errorf("%s: found %d, want %d", name, got, tt.want)
		}
	}
}

func TestRequestContextsFinds(t *testing.T) {
	t.Parallel()
	const text = `package p
		func f() {
			store.Claim(r.Context(), rows)
			ctx := r.Context()
			context.WithoutCancel(r.Context())
			wrap(context.WithTimeout(req.Context(), 1))
			x.Context(1)
		}`
	var got []string
	for _, call := range requestContexts(parse(t, token.NewFileSet(), source{"p.go", []byte(text)})) {
		got = append(got, call.taker)
	}
	if diff := cmp.Diff([]string{"Claim", "", "WithoutCancel", "WithTimeout"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMachinePathFinds(t *testing.T) {
	t.Parallel()
	const work, home = "/wo" + "rk/", "/ro" + "ot/"
	for text, want := range map[string]bool{
		work + "main": true, "cd " + home + "x": true, `"` + work + `"`: true, "file:" + home + "x": true,
		"see ..//shared": false, "cat ../sha" + "red/x": true, "../sharedness": false,
		"https://example.com" + work + "x": false, "go/network/": false, "a" + home: false, "/workers/": false,
	} {
		if got := machinePath.MatchString(text); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestForeignFinds(t *testing.T) {
	t.Parallel()
	all := map[string]*listed{
		module:          {ImportPath: module, Imports: []string{"fmt", module + "/a", module + "/b"}},
		module + "/a":   {ImportPath: module + "/a", Imports: []string{"fmt", "golang.org/x/time/rate"}},
		module + "/b":   {ImportPath: module + "/b", Imports: []string{"example.com/x"}},
		"example.com/x": {ImportPath: "example.com/x", Imports: []string{"example.com/y"}},
		"fmt":           {ImportPath: "fmt", Standard: true, Imports: []string{"vendor/golang.org/x/net"}},
	}
	if diff := cmp.Diff([]string{module, module + "/b", "example.com/x"}, foreign(all, module)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if chain := foreign(all, module+"/a"); chain != nil {
		t.Errorf("found %q", chain)
	}
}
