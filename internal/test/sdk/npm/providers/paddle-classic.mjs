// Paddle's own SDK has no verifier of Paddle Classic.
export default {
  provider: "paddle-classic",
  scheme: "p_signature",
  sdk: "verify-paddle-webhook",
  covered: ["evt_", "alert_name", "test", "event_time"], // Node ignores a change of the padding behind the signature
  async verify(request, key) {
    const { verifyPaddleWebhook } = await import("verify-paddle-webhook");
    return verifyPaddleWebhook(key.public, Object.fromEntries(new URLSearchParams(request.body)));
  },
};
