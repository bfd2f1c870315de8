package hookadmin

// Endpoint is what the tests know of one.
type Endpoint struct {
	Method, Path string
	Query        []string
}

// Endpoints returns everything that is served.
func Endpoints() []Endpoint {
	var all []Endpoint
	for _, e := range endpoints {
		all = append(all, Endpoint{e.method, e.path, e.query})
	}
	return all
}

// What a POST carries, by the name of its schema.
type (
	ReplayRequest      = replayRequest
	DeadLettersRequest = deadLettersRequest
)
