//! Notifications in the forms of real mail servers. The names and addresses are changed.

use super::*;

fn parse(message: &str) -> Option<DeliveryStatus> {
    let parsed = DeliveryStatus::parse(message.as_bytes());
    let crlf = message.replace('\n', "\r\n");
    assert_eq!(DeliveryStatus::parse(crlf.as_bytes()), parsed);
    parsed
}

fn one(address: &str, action: Action, diagnostic: &str) -> RecipientStatus {
    RecipientStatus {
        address: address.into(),
        action,
        diagnostic: diagnostic.into(),
    }
}

const POSTFIX: &str = "From: Mail Delivery System <MAILER-DAEMON@mail.first.test>
Subject: Undelivered Mail Returned to Sender
To: ada@first.test
Auto-Submitted: auto-replied
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status;
	boundary=\"DB7CE58E0DC.1795903459/mail.first.test\"
Content-Transfer-Encoding: 8bit

This is a MIME-encapsulated message.

--DB7CE58E0DC.1795903459/mail.first.test
Content-Description: Notification
Content-Type: text/plain; charset=utf-8

This is the mail system at host mail.first.test.

<bad@out.test>: host mx.out.test[192.0.2.1] said: 550 5.1.1 no such user

--DB7CE58E0DC.1795903459/mail.first.test
Content-Description: Delivery report
Content-Type: message/delivery-status

Reporting-MTA: dns; mail.first.test
Original-Envelope-Id: SECRET
X-Postfix-Queue-ID: DB7CE58E0DC
X-Postfix-Sender: rfc822; ada@first.test
Arrival-Date: Sat, 28 Nov 2026 22:04:19 +0000 (UTC)

Final-Recipient: rfc822; bob@first.test
Original-Recipient: rfc822;shop@first.test
Action: failed
Status: 5.1.1
Remote-MTA: dns; 192.0.2.1
Diagnostic-Code: smtp; 550 5.1.1 no
    such user

Final-Recipient: rfc822; x@out.test
Original-Recipient: rfc822;x@out.test
Action: relayed
Status: 2.0.0
Remote-MTA: dns; 192.0.2.1
Diagnostic-Code: smtp; 250 2.0.0 accepted

--DB7CE58E0DC.1795903459/mail.first.test
Content-Description: Undelivered Message
Content-Type: message/rfc822

Original-Envelope-Id: OTHER
Subject: t

hi

--DB7CE58E0DC.1795903459/mail.first.test--
";

#[test]
fn postfix() {
    let parsed = parse(POSTFIX).unwrap();
    assert_eq!(parsed.envelope_id.as_deref(), Some("SECRET"));
    assert_eq!(
        parsed.recipients,
        [
            one("shop@first.test", Action::Failed, "550 5.1.1 no such user"),
            one("x@out.test", Action::Relayed, "250 2.0.0 accepted"),
        ]
    );
}

#[test]
fn postfix_with_addresses_that_are_not_ascii() {
    let parsed = parse(
        "Content-Type: multipart/report; report-type=global-delivery-status; boundary=b

--b
Content-Type: message/global-delivery-status
Content-Transfer-Encoding: 8bit

Reporting-MTA: dns; mail.first.test
Original-Envelope-Id: SECRET

Final-Recipient: utf-8; grün@out.test
Original-Recipient: rfc822;grün@out.test
Action: delayed
Status: 4.2.0
Diagnostic-Code: smtp; 450 4.2.0 später
Will-Retry-Until: Thu,  3 Dec 2026 22:04:50 +0000 (UTC)

Final-Recipient: utf-8; j\\x{FC}rgen@out.test
Action: delivered
Status: 2.0.0

--b--
",
    );
    assert_eq!(
        parsed.unwrap().recipients,
        [
            one("grün@out.test", Action::Delayed, "450 4.2.0 später"),
            one("jürgen@out.test", Action::Delivered, "2.0.0"),
        ]
    );
}

#[test]
fn exim() {
    let parsed = parse(
        "X-Failed-Recipients: nobody@out.test
Auto-Submitted: auto-replied
From: Mail Delivery System <Mailer-Daemon@mx.out.test>
Content-Type: multipart/report; report-type=delivery-status; boundary=1795903459-eximdsn-12
MIME-Version: 1.0

--1795903459-eximdsn-12
Content-type: text/plain; charset=us-ascii

This message was created automatically by mail delivery software.

--1795903459-eximdsn-12
Content-type: message/delivery-status

Reporting-MTA: dns; mx.out.test
Original-Envelope-Id: SECRET

Action: failed
Final-Recipient: rfc822;nobody@out.test
Status: 5.0.0
Remote-MTA: dns; store.out.test
Diagnostic-Code: smtp; 550 Unrouteable address

--1795903459-eximdsn-12
Content-type: message/rfc822

Subject: t

--1795903459-eximdsn-12--
",
    );
    let parsed = parsed.unwrap();
    assert_eq!(parsed.envelope_id.as_deref(), Some("SECRET"));
    let failed = one("nobody@out.test", Action::Failed, "550 Unrouteable address");
    assert_eq!(parsed.recipients, [failed]);
}

#[test]
fn exchange() {
    let parsed = parse(
        "From: <postmaster@out.test>
Content-Type: multipart/report; report-type=delivery-status;
	boundary=\"9B095B5ADSN=_01D0000000000000\"
X-DSNContext: 335a7efd - 4523 - 00000001 - 80040546

--9B095B5ADSN=_01D0000000000000
Content-Type: multipart/alternative; boundary=inner

--inner
Content-Type: text/plain; charset=\"us-ascii\"
Content-Transfer-Encoding: quoted-printable

Delivery has failed to these recipients or groups:

--inner
Content-Type: text/html; charset=\"us-ascii\"

<html>Delivery has failed</html>

--inner--

--9B095B5ADSN=_01D0000000000000
Content-Type: message/delivery-status

Original-Envelope-ID: SECRET
Reporting-MTA: dns;EX01.out.test
Received-From-MTA: dns;mail.first.test
Arrival-Date: Sat, 28 Nov 2026 22:04:19 +0000

Original-Recipient: rfc822;nobody@out.test
Final-Recipient: rfc822;nobody@ex.out.test
Action: failed
Status: 5.1.10
Diagnostic-Code: smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found
X-Display-Name: nobody

--9B095B5ADSN=_01D0000000000000
Content-Type: text/rfc822-headers

Subject: t

--9B095B5ADSN=_01D0000000000000--
",
    );
    let parsed = parsed.unwrap();
    assert_eq!(parsed.envelope_id.as_deref(), Some("SECRET"));
    let text = "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found";
    let failed = one("nobody@out.test", Action::Failed, text);
    assert_eq!(parsed.recipients, [failed]);
}

#[test]
fn gmail() {
    let parsed = parse(
        "From: Mail Delivery Subsystem <mailer-daemon@googlemail.com>
Auto-Submitted: auto-replied
Content-Type: multipart/report; boundary=\"0000000000abcdef\"; report-type=delivery-status

--0000000000abcdef
Content-Type: multipart/related; boundary=\"0000000000abcdf0\"

--0000000000abcdf0
Content-Type: multipart/alternative; boundary=\"0000000000abcdf1\"

--0000000000abcdf1
Content-Type: text/plain; charset=\"UTF-8\"

** Address not found **

--0000000000abcdf1
Content-Type: text/html; charset=\"UTF-8\"

<html></html>

--0000000000abcdf1--
--0000000000abcdf0
Content-Type: image/png; name=\"icon.png\"
Content-Transfer-Encoding: base64
Content-ID: <icon.png>

iVBORw0KGgo=
--0000000000abcdf0--
--0000000000abcdef
Content-Type: message/delivery-status

Reporting-MTA: dns; googlemail.com
Arrival-Date: Sat, 28 Nov 2026 14:04:19 -0800 (PST)
X-Original-Message-ID: <1@first.test>

Final-Recipient: rfc822; nobody@gmail.com
Action: failed
Status: 5.1.1
Remote-MTA: dns; gmail-smtp-in.l.google.com. (192.0.2.7, the server for
 the domain gmail.com.)
Diagnostic-Code: smtp; 550-5.1.1 The email account that you tried to reach does
 not exist. gsmtp
Last-Attempt-Date: Sat, 28 Nov 2026 14:04:19 -0800 (PST)

--0000000000abcdef
Content-Type: message/rfc822

Subject: t

--0000000000abcdef--
",
    );
    let parsed = parsed.unwrap();
    assert_eq!(parsed.envelope_id, None);
    let text = "550-5.1.1 The email account that you tried to reach does not exist. gsmtp";
    let failed = one("nobody@gmail.com", Action::Failed, text);
    assert_eq!(parsed.recipients, [failed]);
}

#[test]
fn sendmail() {
    let parsed = parse(
        "From: Mail Delivery Subsystem <MAILER-DAEMON@mx.out.test>
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status;
	boundary=\"0ASM4JvB012345.1795903459/mx.out.test\"
Auto-Submitted: auto-generated (warning-timeout)

This is a MIME-encapsulated message

--0ASM4JvB012345.1795903459/mx.out.test

    **********************************************
    **      THIS IS A WARNING MESSAGE ONLY      **
    **********************************************

--0ASM4JvB012345.1795903459/mx.out.test
Content-Type: message/delivery-status

Original-Envelope-Id: SECRET
Reporting-MTA: dns; mx.out.test
Arrival-Date: Sat, 28 Nov 2026 18:04:19 GMT

Original-Recipient: rfc822;<slow@out.test>
Final-Recipient: RFC822; slow@store.out.test
X-Actual-Recipient: RFC822; slow@store.out.test
Action: delayed
Status: 4.4.1
Remote-MTA: DNS; store.out.test
Last-Attempt-Date: Sat, 28 Nov 2026 22:04:19 GMT
Will-Retry-Until: Thu, 3 Dec 2026 18:04:19 GMT

Final-Recipient: RFC822; list@out.test
Action: expanded (to multi-recipient alias)
Status: 2.1.5

--0ASM4JvB012345.1795903459/mx.out.test
Content-Type: text/rfc822-headers

Subject: t

--0ASM4JvB012345.1795903459/mx.out.test--
",
    );
    assert_eq!(
        parsed.unwrap().recipients,
        [
            one("slow@out.test", Action::Delayed, "4.4.1"),
            one("list@out.test", Action::Expanded, "2.1.5"),
        ]
    );
}

#[test]
fn an_encoded_part_is_decoded() {
    // Final-Recipient: rfc822;a@b.test, Action: failed, Status: 5.0.0
    let parsed = parse(
        "Content-Type: multipart/report; boundary=b

--b
Content-Type: message/delivery-status
Content-Transfer-Encoding: quoted-printable

Original-Envelope-Id: SEC=52ET

Final-Recipient: rfc822;a=40b.test
Action: failed
Status: 5.0.=
0
--b--
",
    );
    let parsed = parsed.unwrap();
    assert_eq!(parsed.envelope_id.as_deref(), Some("SECRET"));
    assert_eq!(
        parsed.recipients,
        [one("a@b.test", Action::Failed, "5.0.0")]
    );
}

#[test]
fn other_messages_are_no_notifications() {
    assert_eq!(parse(""), None);
    assert_eq!(parse("Subject: t\n\ntext\n"), None);
    let forwarded = POSTFIX.replace("multipart/report", "multipart/mixed");
    assert_eq!(parse(&forwarded), None);
    let read = POSTFIX.replace(
        "message/delivery-status",
        "message/disposition-notification",
    );
    assert_eq!(parse(&read), None);
}

#[test]
fn a_hostile_notification_has_a_limited_result() {
    let group = "Final-Recipient: rfc822;a@b.test\nAction: failed\nDiagnostic-Code: x;";
    let groups = format!("{group}{}\n\n", "y ".repeat(2000)).repeat(3000);
    let message = POSTFIX.replace("Final-Recipient: rfc822; bob", &format!("{groups}X: bob"));
    let parsed = parse(&message).unwrap();
    assert!(parsed.recipients.len() <= MAX_RECIPIENTS);
    let longest = parsed.recipients.iter().map(|one| one.diagnostic.len());
    assert!(longest.max().unwrap() <= MAX_VALUE);
}

#[test]
fn every_beginning_of_a_notification_is_parsed() {
    for cut in 0..POSTFIX.len() {
        let parsed = DeliveryStatus::parse(&POSTFIX.as_bytes()[..cut]).unwrap_or_default();
        for recipient in parsed.recipients {
            assert!(!recipient.address.is_empty());
        }
    }
    let broken = POSTFIX
        .replace("rfc822;shop@first.test", "utf-8;\\x{110000}\\x{41}\\x{@b")
        .replace("no\n    such user", ";;\n\t\n :\n");
    let parsed = parse(&broken).unwrap();
    assert_eq!(parsed.recipients[0].address, "\\x{110000}A\\x{@b");
}
