export default {
  provider: "gocardless",
  sdk: "gocardless-nodejs",
  async verify(request, key) {
    const { verifySignature } = await import("gocardless-nodejs/webhooks");
    verifySignature(request.body, key.secret, request.headers["webhook-signature"]);
    return true;
  },
};
