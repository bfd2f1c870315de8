// Front has no SDK; front-sdk is by others, and knows only the webhooks of rules.
export default {
  provider: "front",
  scheme: "rule",
  sdk: "front-sdk",
  unchecked: { "value repeated in the body": "it writes the JSON again before it checks it" },
  ascii: "the SDK verifies JSON that it has written again, in which an escape is another text",
  async verify(request, key) {
    const { Front } = (await import("front-sdk")).default;
    return new Front("key", key.secret).validateEventSignature(JSON.parse(request.body), request.headers["x-front-signature"]);
  },
};
