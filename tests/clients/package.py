# Uses the client package for Python. `data.json` names the service.

import base64
import hashlib
import hmac
import json
import threading
import time
from pathlib import Path

from latchmail import ApiError, Latchmail, NetworkError, WebhookError, paginate, verify_webhook

data = json.loads(Path("data.json").read_text())
client = Latchmail(data["base"], data["token"])

folders = client.mail.list_folders()["folders"]
assert any(folder["path"] == "INBOX" for folder in folders)

# Events begin before the change.
received = []
events = client.events(types=["message.created"])
thread = threading.Thread(target=lambda: received.append(next(events)), daemon=True)
thread.start()
time.sleep(1)

# Pages.
for number in range(5):
    client.mail.import_message("INBOX", f"Subject: Letter {number}\r\n\r\nHello.\r\n".encode())
thread.join(30)
assert received[0]["type"] == "message.created", received
subjects = [each["subject"] for each in paginate(client.mail.list_messages, "messages", "INBOX", limit=2)]
assert subjects == [f"Letter {number}" for number in (4, 3, 2, 1, 0)], subjects

# Errors.
try:
    client.mail.get_message(999_999)
    raise AssertionError
except ApiError as error:
    assert (error.status, error.code) == (404, "message_not_found")
try:
    Latchmail("http://127.0.0.1:1", retries=0).mail.list_folders()
    raise AssertionError
except NetworkError:
    pass

# A send has an idempotency key of its own.
sent = client.mail.send_message({"from": data["address"], "to": data["other"], "subject": "Once", "text": "x"})
assert sent["messageId"]
key = {"idempotency_key": "the-key-of-a-test"}
letter = {"from": data["address"], "to": data["other"], "subject": "Twice", "text": "x"}
first, second = [client.mail.send_message(letter, **key) for _ in range(2)]
assert first["messageId"] == second["messageId"]

# Bytes.
newest = client.mail.list_messages("INBOX", limit=1)["messages"][0]
assert client.mail.get_raw_message(newest["uid"]).startswith(b"Subject: Letter")
upload = client.mail.upload_file(b"{}", filename="a.json", content_type="application/json")
assert (upload["contentType"], upload["size"]) == ("application/json", 2), upload

# Webhooks.
key = bytes([7] * 24)
secret = "whsec_" + base64.b64encode(key).decode()
timestamp = str(int(time.time()))
body = b'{"type":"message.created"}'
digest = hmac.new(key, f"id.{timestamp}.".encode() + body, hashlib.sha256).digest()
signature = "v1,AAAA v1," + base64.b64encode(digest).decode()
headers = {"Webhook-Id": "id", "Webhook-Timestamp": timestamp, "Webhook-Signature": signature}
assert verify_webhook(body, headers, secret)["type"] == "message.created"
for text, changed in [(body + b" ", {}), (body, {"Webhook-Timestamp": "1"}), (body, {"Webhook-Signature": ""})]:
    try:
        verify_webhook(text, headers | changed, secret)
        raise AssertionError
    except WebhookError:
        pass
