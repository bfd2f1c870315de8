const sdk = () => import("@octokit/webhooks-methods");

export default {
  provider: "github",
  sdk: "@octokit/webhooks-methods",
  async verify(request, key) {
    const { verify } = await sdk();
    return await verify(key.secret, request.body, request.headers["x-hub-signature-256"]);
  },
  async sign(request, key) {
    const { sign } = await sdk();
    return { headers: { "x-hub-signature-256": await sign(key.secret, request.body) } };
  },
  // Payloads that GitHub documents and that the community recorded; the package has no headers.
  async recorded() {
    const { default: events } = await import("@octokit/webhooks-examples", { with: { type: "json" } });
    return events.flatMap(({ name, examples }) =>
      examples.map((example, i) => ({
        name: `${name}/${i}`,
        request: { headers: { "x-github-event": name, "x-github-delivery": `${name}-${i}` }, body: JSON.stringify(example) },
      })),
    );
  },
};
