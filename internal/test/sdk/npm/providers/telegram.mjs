// Telegram has no SDK of its own; grammY is a well-known framework for its bots.
export default {
  provider: "telegram",
  sdk: "grammy",
  async verify(request, key) {
    const { Bot, webhookCallback } = (await import("grammy")).default;
    const bot = new Bot("1:key", { botInfo: { id: 1, is_bot: true, first_name: "bot", username: "bot" } });
    let valid = true;
    const receive = webhookCallback(bot, "callback", { secretToken: key.secret });
    const header = request.headers["x-telegram-bot-api-secret-token"];
    await receive(JSON.parse(request.body), () => {}, header, () => (valid = false));
    return valid;
  },
};
