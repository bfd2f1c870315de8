package hookadmin

import (
	_ "embed"
	"encoding/json"
	"net/http"
)

// openAPI describes the API: everything that is served but the pages of the dashboard. A test keeps it true.
//
//go:embed openapi.json
var openAPI []byte

func (h *handler) showOpenAPI(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, json.RawMessage(openAPI))
}
