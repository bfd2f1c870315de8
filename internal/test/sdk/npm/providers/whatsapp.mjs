const subject = {
  provider: "whatsapp",
  sdk: "whatsapp-api-js",
  ascii: "it checks the body with other characters as \\u escapes; Meta's bodies hold only such escapes",
  unchecked: { "value non-ASCII in the body": "it checks the body with other characters as \\u escapes" },
  async verify(request, key) {
    const { WhatsAppAPI } = await import("whatsapp-api-js");
    const api = new WhatsAppAPI({ token: "token", appSecret: key.secret, v: "v24.0" });
    return await api.verifyRequestSignature(request.body, request.headers["x-hub-signature-256"]);
  },
};

export default [
  subject,
  {
    ...subject,
    variant: "escapes",
    body: String.raw`{"object":"whatsapp_business_account","entry":[{"id":"1","changes":[{"field":"messages","value":{"messages":[{"id":"wamid.1","timestamp":"1760000000","text":{"body":"Gr\u00fc\u00dfe \ud83d\ude00"}}]}}]}]}`,
  },
];
