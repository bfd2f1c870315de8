export default {
  provider: "slack",
  sdk: "@slack/bolt",
  async verify(request, key) {
    // The whole of Bolt needs packages that only its other parts use.
    const { verifySlackRequest } = (await import("@slack/bolt/dist/receivers/verify-request.js")).default;
    const headers = {
      "x-slack-signature": request.headers["x-slack-signature"],
      "x-slack-request-timestamp": Number(request.headers["x-slack-request-timestamp"]),
    };
    verifySlackRequest({ signingSecret: key.secret, body: request.body, headers });
    return true;
  },
};
