package hookadmin

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPI describes everything that is served. A test keeps it true.
//
//go:embed openapi.json
var openAPI []byte

func (h *handler) showOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, json.RawMessage(openAPI))
}
