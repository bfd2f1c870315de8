// The trigger of n8n has its check in the node itself, which needs n8n-workflow; a stand-in of that is enough.
import { createRequire, Module } from "node:module";
const require = createRequire(import.meta.url);

function trigger() {
  const load = Module._load;
  Module._load = function (name, ...rest) {
    return name === "n8n-workflow" ? { NodeConnectionTypes: {} } : load.call(this, name, ...rest);
  };
  try {
    return require("n8n-nodes-base/dist/nodes/ClickUp/ClickUpTrigger.node.js").ClickUpTrigger;
  } finally {
    Module._load = load;
  }
}

export default {
  provider: "clickup",
  sdk: "n8n-nodes-base",
  unchecked: { "value repeated in the body": "it writes the JSON again before it checks it" },
  ascii: "it writes the JSON again before it checks it",
  async verify(request, key) {
    const result = await trigger().prototype.webhook.call({
      getHeaderData: () => request.headers,
      getRequestObject: () => ({ body: JSON.parse(request.body) }),
      getWorkflowStaticData: () => ({ secret: key.secret }),
      helpers: { returnJsonArray: (json) => [{ json }] },
    });
    return result.workflowData !== undefined; // it ignores a request that is not valid
  },
};
