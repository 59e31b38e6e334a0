"""Uses a mailbox with jmapc: lists, creates, sends, and waits for an event."""

import os
import threading

import requests
from jmapc import Client, Comparator, Email, EmailAddress, EmailBodyPart, EmailBodyValue
from jmapc import EmailQueryFilterCondition, EmailSubmission, MailboxQueryFilterCondition, Ref
from jmapc.methods import (
    EmailGet, EmailQuery, EmailSet, EmailSubmissionSet, IdentityGet, MailboxGet, MailboxQuery,
    ThreadGet,
)
from jmapc.session import Session

BASE, TOKEN = os.environ["JMAP_BASE"], os.environ["JMAP_TOKEN"]
ADDRESS, TO = os.environ["JMAP_ADDRESS"], os.environ["JMAP_TO"]


def connect():
    """Returns a client. jmapc finds the session only over https, which this service does not have."""
    client = Client.create_with_api_token(BASE.split("://")[1], TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    found = requests.get(f"{BASE}/.well-known/jmap", headers=headers, timeout=30)
    found.raise_for_status()
    client.__dict__["jmap_session"] = Session.from_dict(found.json())
    return client


def mailbox(client, role):
    found = client.request([
        MailboxQuery(filter=MailboxQueryFilterCondition(role=role)),
        MailboxGet(ids=Ref("/ids")),
    ], raise_errors=True)
    [one] = found[1].response.data
    assert one.role == role, one
    return one.id


def main():
    client = connect()
    assert client.jmap_session.username == ADDRESS
    identities = client.request(IdentityGet(ids=None), raise_errors=True).data
    [identity] = [one for one in identities if one.email == ADDRESS]
    drafts, sent = mailbox(client, "drafts"), mailbox(client, "sent")

    events, arrived = [], threading.Event()

    def listen():
        for event in client.events:
            events.append(event)
            arrived.set()
            return

    threading.Thread(target=listen, daemon=True).start()
    draft = Email(
        mail_from=[EmailAddress(name="Ada", email=ADDRESS)],
        to=[EmailAddress(email=TO)],
        subject="Greetings from jmapc",
        keywords={"$draft": True},
        mailbox_ids={drafts: True},
        body_values={"body": EmailBodyValue(value="Hello from jmapc.")},
        text_body=[EmailBodyPart(part_id="body", type="text/plain")],
    )
    results = client.request([
        EmailSet(create={"draft": draft}),
        EmailSubmissionSet(
            on_success_update_email={
                "#submission": {
                    "keywords/$draft": None,
                    f"mailboxIds/{drafts}": None,
                    f"mailboxIds/{sent}": True,
                },
            },
            create={"submission": EmailSubmission(email_id="#draft", identity_id=identity.id)},
        ),
    ], raise_errors=True)
    created = results[0].response.created["draft"].id
    assert results[1].response.created["submission"], results

    found = client.request([
        EmailQuery(
            filter=EmailQueryFilterCondition(in_mailbox=sent, text="jmapc"),
            sort=[Comparator(property="receivedAt", is_ascending=False)],
            limit=5,
        ),
        EmailGet(ids=Ref("/ids"), fetch_text_body_values=True),
        ThreadGet(ids=Ref("/list/*/threadId")),
    ], raise_errors=True)
    [email] = found[1].response.data
    assert email.id == created, (email, created)
    assert email.subject == "Greetings from jmapc"
    assert email.body_values[email.text_body[0].part_id].value.strip() == "Hello from jmapc."
    assert created in found[2].response.data[0].email_ids
    assert "$draft" not in (email.keywords or {})
    for _ in range(6):
        if arrived.wait(5):
            break
        client.request(EmailSet(update={created: {"keywords/$flagged": True}}), raise_errors=True)
    assert events and events[0].data.changed[client.account_id].email, "no event arrived"
    client.request(EmailSet(destroy=[created]), raise_errors=True)


main()
