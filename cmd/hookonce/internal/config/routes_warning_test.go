package config

import (
	"testing"
)

// A source that no route names is warned of, if there are destinations.
func TestSourceWithoutARoute(t *testing.T) {
	t.Parallel()
	const sources = "sources: {shop: {provider: none, event: {id: 'body:id'}}}\n"
	for rest, want := range map[string]bool{
		"": false,
		"destinations: {app: {url: 'https://app.example.com'}}\n":                                                   true,
		"destinations: {app: {url: 'https://app.example.com'}}\nroutes: [{name: all, to: app}]\n":                   false,
		"destinations: {app: {url: 'https://app.example.com'}}\nroutes: [{name: all, sources: [shop], to: app}]\n":  false,
		"destinations: {app: {url: 'https://app.example.com'}}\nroutes: [{name: all, sources: [other], to: app}]\n": false, // a fault
	} {
		settings, _ := Load(LoadOptions{Dir: dirWith(t, sources+rest)})
		found := false
		for _, w := range settings.Warnings {
			found = found || w.Path == "sources.shop" && w.AtStart && w.Message == "no route takes its events: they are stored, and reach no destination"
		}
		if found != want {
			t.Errorf("%q: the warnings are %+v, want one of the route: %t", rest, settings.Warnings, want)
		}
	}
}
