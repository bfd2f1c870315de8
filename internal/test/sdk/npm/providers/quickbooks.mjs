export default {
  provider: "quickbooks",
  sdk: "quickbooks-node-promise",
  unchecked: { "value repeated in the body": "it writes the JSON again before it checks it" },
  ascii: "it writes the JSON again before it checks it",
  async verify(request, key) {
    const { default: module } = await import("quickbooks-node-promise");
    return (module.default ?? module).verifyWebhook(key.secret, JSON.parse(request.body), request.headers["intuit-signature"]);
  },
};
