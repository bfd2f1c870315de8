<?php // An application behind hookonce: it does the work of each webhook-id once.
$body = file_get_contents('php://input', length: (1 << 20) + 1); // the raw body: the signature covers its bytes
$id = $_SERVER['HTTP_WEBHOOK_ID'] ?? '';
$at = $_SERVER['HTTP_WEBHOOK_TIMESTAMP'] ?? '';
$key = base64_decode(preg_replace('/^whsec_/', '', getenv('APP_SECRET')));
$right = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$at.$body", $key, true));
$fits = false;
foreach (explode(' ', $_SERVER['HTTP_WEBHOOK_SIGNATURE'] ?? '') as $signature) {
    $fits = hash_equals($right, $signature) || $fits;
}
if (!$fits || strlen($body) > 1 << 20 || !ctype_digit($at) || abs(time() - (int) $at) > 300) {
    http_response_code(401);
    exit;
}
if (json_decode($body) === null) {
    http_response_code(400);
    exit;
}
http_response_code(503); // until the commit: hookonce sends the request again
$db = new PDO('sqlite:' . (getenv('DATABASE') ?: 'app.db')); // an exception undoes the transaction
$db->exec('CREATE TABLE IF NOT EXISTS seen (webhook_id TEXT PRIMARY KEY)');
$db->exec('CREATE TABLE IF NOT EXISTS work (webhook_id TEXT, body TEXT)');
$db->beginTransaction();
$first = $db->prepare('INSERT INTO seen VALUES (?) ON CONFLICT DO NOTHING');
$first->execute([$id]);
if ($first->rowCount()) { // else the work was done before: the answer is 200 again
    $db->prepare('INSERT INTO work VALUES (?, ?)')->execute([$id, $body]);
}
$db->commit();
http_response_code(200);
