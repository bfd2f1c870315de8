// The SDK signs and verifies the event that it writes as JSON again.
async function webhooks() {
  const { WorkOS } = await import("@workos-inc/node");
  return new WorkOS("key").webhooks;
}

export default {
  provider: "workos",
  sdk: "@workos-inc/node",
  unchecked: { several: "the package reads one signature", "value repeated in the body": "it writes the JSON again before it checks it" },
  ascii: "the SDK verifies JSON that it has written again, in which an escape is another text",
  async verify(request, key) {
    const payload = JSON.parse(request.body);
    const sigHeader = request.headers["workos-signature"];
    return await (await webhooks()).verifyHeader({ payload, sigHeader, secret: key.secret });
  },
  async sign(request, key) {
    const payload = JSON.parse(request.body);
    const signature = await (await webhooks()).computeSignature(request.now, payload, key.secret);
    return { headers: { "workos-signature": `t=${request.now}, v1=${signature}` }, body: JSON.stringify(payload) };
  },
};
