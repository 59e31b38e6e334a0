//! A grant on a folder follows that folder through renames by any client, and applies to no other
//! folder. Resources outside the grants look like resources that do not exist.

use latchmail_tests::{Service, imap, stored_messages};
use serde_json::json;

use super::rules::Grant;
use super::shared_mailbox::{SharedMailbox, from};

const READ: &[&str] = &["mail:read"];

#[tokio::test]
async fn a_renamed_folder_stays_shared_and_a_new_folder_with_its_old_name_is_not() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let inside = shared.append("Alpha", "inside").await;
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, READ);
    shared.invite("bob", &grant).await.succeeds(201);
    let bob = shared.bob.clone();
    let beta = shared.folder("Beta").await;
    shared.grant(&Grant::on("folder", &beta, READ)).await;

    // The connections of the members and of the owner have the folder open under its old name.
    let message = |uid| format!("GET /api/v1/mail/messages/{uid}");
    shared.send(&bob, &message(inside)).await.succeeds(200);
    shared.ada.send(&message(inside)).await.succeeds(200);
    shared.client.rename("Alpha", "Omega").await.unwrap();
    // An empty folder can be recognized only by its UIDVALIDITY.
    shared.client.rename("Beta", "Empty").await.unwrap();
    shared.client.create("Alpha").await.unwrap();
    let outside = shared.append("Alpha", "outside").await;

    let list = |folder: &str| format!("GET /api/v1/mail/folders/{folder}/messages");
    let listed = shared.send(&bob, &list("Omega")).await.succeeds(200);
    assert_eq!(listed["messages"][0]["uid"], inside);
    shared
        .send(&bob, &list("Alpha"))
        .await
        .fails(404, "Folder not found");
    shared.send(&bob, &list("Empty")).await.succeeds(200);
    shared.send(&bob, &message(inside)).await.succeeds(200);
    shared
        .send(&bob, &message(outside))
        .await
        .fails(404, "Message not found");
    assert_eq!(shared.folder("Omega").await, alpha);
    assert_eq!(shared.folder("Empty").await, beta);
    assert_ne!(shared.folder("Alpha").await, alpha);
    let shown = shared
        .send(&bob, "GET /api/v1/mail/folders")
        .await
        .succeeds(200);
    let shown = shown["folders"].as_array().unwrap();
    let paths: Vec<_> = shown
        .iter()
        .map(|folder| folder["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["Empty", "Omega"]);
}

#[tokio::test]
async fn no_message_is_moved_into_a_new_folder_with_the_name_of_a_shared_one() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let goes = shared.append("Beta", "goes").await;
    let stays = shared.append("Alpha", "stays").await;
    let alpha = shared.folder("Alpha").await;
    let rights = &["mail:read", "mail:write"];
    shared
        .invite("bob", &Grant::on("folder", &alpha, rights))
        .await
        .succeeds(201);
    let beta = shared.folder("Beta").await;
    shared.grant(&Grant::on("folder", &beta, rights)).await;
    let bob = shared.bob.clone();
    shared.client.rename("Alpha", "Omega").await.unwrap();
    shared.client.create("Alpha").await.unwrap();
    let to = json!({ "destination": "Alpha" });
    let line = format!("POST /api/v1/mail/messages/{goes}/move");
    shared
        .send_json(&bob, &line, &to)
        .await
        .fails(404, "Folder not found");
    // The owner may move it. Only this request makes the service see the other folder.
    shared.ada.send_json(&line, &to).await.succeeds(200);
    let line = format!("GET /api/v1/mail/messages/{goes}");
    shared
        .send(&bob, &line)
        .await
        .fails(404, "Message not found");
    let line = format!("GET /api/v1/mail/messages/{stays}");
    shared.send(&bob, &line).await.succeeds(200);
    assert_eq!(shared.folder("Omega").await, alpha);
    assert_ne!(shared.folder("Alpha").await, alpha);
}

#[tokio::test]
async fn a_folder_that_was_created_again_is_not_shared() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    shared.append("Alpha", "before").await;
    let grant = Grant::on("folder", &shared.folder("Alpha").await, READ);
    shared.invite("bob", &grant).await.succeeds(201);
    let line = "GET /api/v1/mail/folders/Alpha/messages";
    shared.send(&shared.bob, line).await.succeeds(200);
    shared.client.delete("Alpha").await.unwrap();
    shared.client.create("Alpha").await.unwrap();
    shared.append("Alpha", "after").await;
    shared
        .send(&shared.bob, line)
        .await
        .fails(404, "Folder not found");
    let line = "GET /api/v1/mail/search?q=after&folder=Alpha";
    shared
        .send(&shared.bob, line)
        .await
        .fails(404, "Folder not found");
}

#[tokio::test]
async fn a_member_can_read_a_message_only_in_its_current_folder() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let leaves = shared.append("Alpha", "leaves").await;
    let comes = shared.append("Beta", "comes").await;
    let grant = Grant::on("folder", &shared.folder("Alpha").await, READ);
    shared.invite("bob", &grant).await.succeeds(201);
    let message = |uid| format!("GET /api/v1/mail/messages/{uid}");
    shared
        .send(&shared.bob, &message(leaves))
        .await
        .succeeds(200);
    shared
        .send(&shared.bob, &message(comes))
        .await
        .fails(404, "Message not found");
    // Another client renames the folders without the service's knowledge.
    for (from, to) in [("Alpha", "Beta"), ("Beta", "Alpha")] {
        shared.client.select(from).await.unwrap();
        shared.client.uid_mv("1", to).await.unwrap();
    }
    shared
        .send(&shared.bob, &message(comes))
        .await
        .succeeds(200);
    shared
        .send(&shared.bob, &message(leaves))
        .await
        .fails(404, "Message not found");
    let attachment = format!("{}/attachments/0", message(leaves));
    shared
        .send(&shared.bob, &attachment)
        .await
        .fails(404, "Message not found");
    let attachment = format!("{}/attachments/9", message(leaves));
    shared
        .send(&shared.bob, &attachment)
        .await
        .fails(404, "Message not found");
}

#[tokio::test]
async fn resources_outside_the_grants_look_like_unknown_ones() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let secret = shared.append("Beta", "secret").await;
    shared.append("INBOX", "private").await;
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read", "mail:write"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let bob = &shared.bob.clone();
    let flag = json!({ "flags": ["\\Seen"], "action": "add" });
    let never = 999_999;
    for (line, body) in [
        ("GET /api/v1/mail/messages/{uid}", None),
        ("GET /api/v1/mail/messages/{uid}/attachments/0", None),
        ("GET /api/v1/mail/messages/{uid}/attachments/7", None),
        ("POST /api/v1/mail/messages/{uid}/flag", Some(&flag)),
        ("DELETE /api/v1/mail/messages/{uid}", None),
    ] {
        let mut responses = Vec::new();
        for uid in [secret, never] {
            let line = line.replace("{uid}", &uid.to_string());
            let response = match body {
                Some(body) => shared.send_json(bob, &line, body).await,
                None => shared.send(bob, &line).await,
            };
            responses.push((response.status, response.json));
        }
        assert_eq!(responses[0], responses[1], "{line}");
        assert_eq!(responses[0].0, 404, "{line}");
    }
    let mut bulk = flag.clone();
    let mut responses = Vec::new();
    for uid in [secret, never] {
        bulk["uids"] = json!([uid]);
        let response = shared
            .send_json(bob, "POST /api/v1/mail/messages/bulk/flag", &bulk)
            .await;
        responses.push((response.status, response.json));
    }
    assert_eq!(responses[0], responses[1]);
    let mut responses = Vec::new();
    for folder in ["Beta", "Nowhere", "INBOX", "Sent"] {
        for line in [
            format!("GET /api/v1/mail/folders/{folder}/messages"),
            format!("GET /api/v1/mail/search?q=secret&folder={folder}"),
        ] {
            let response = shared.send(bob, &line).await;
            responses.push((response.status, response.json));
        }
        let uid = shared.append_for("Alpha", folder).await;
        let line = format!("POST /api/v1/mail/messages/{uid}/move");
        let body = json!({ "destination": folder });
        let response = shared.send_json(bob, &line, &body).await;
        responses.push((response.status, response.json));
    }
    let error = json!({ "error": "Folder not found", "code": "folder_not_found" });
    let expected = (404, error);
    assert!(
        responses.iter().all(|response| *response == expected),
        "{responses:?}"
    );
}

#[tokio::test]
async fn a_member_sends_as_the_owners_alias_and_is_named_only_in_the_audit_log() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let alias = json!({ "name": "shop", "domain": "first.test" });
    shared
        .ada
        .post("/api/v1/aliases", &alias)
        .await
        .succeeds(201);
    let grant = Grant::on("alias", "shop@first.test", &["mail:send"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let sent = shared
        .send_json(
            &shared.bob,
            "POST /api/v1/mail/send",
            &from("shop@first.test"),
        )
        .await
        .succeeds(200);
    // Bob must not learn the folder of the copy.
    assert!(sent.get("savedTo").is_none(), "{sent}");
    let filed = stored_messages(&mut shared.client, "Sent").await;
    assert_eq!(filed.len(), 1);
    assert_eq!(filed[0].header("From").unwrap(), "<shop@first.test>");
    let mut inbox = imap(&shared.bob).await;
    let received = loop {
        let received = stored_messages(&mut inbox, "INBOX").await;
        if !received.is_empty() {
            break received;
        }
    };
    let text = String::from_utf8_lossy(&received[0].bytes).to_string();
    assert!(!text.contains("ada@first.test"), "{text}");
    let record = service
        .operator(
            &format!("audit --account {} --json", shared.ada.address),
            "",
        )
        .await
        .succeeds();
    let line = record.lines().find(|line| line.contains("sent_by_guest"));
    let line = line.expect("it is recorded");
    for mention in ["bob@first.test", "shop@first.test"] {
        assert!(line.contains(mention), "{line}");
    }
}

#[tokio::test]
async fn idempotency_keys_of_members_are_separate() {
    let service = Service::with_mail().await;
    let shared = SharedMailbox::new(&service).await;
    let grant = Grant::on("mailbox", "", &["mail:send", "mail:read"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let line = format!("POST /api/v1/mail/send?mailbox={}", shared.mailbox);
    let mut ids = Vec::new();
    for person in [&shared.bob, &shared.ada, &shared.bob] {
        let request = service.request(&line).bearer_auth(&person.access);
        let request = request.header("Idempotency-Key", "the-same");
        let response =
            latchmail_tests::Response::of(request.json(&from(&shared.ada.address))).await;
        ids.push(
            response.succeeds(200)["messageId"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids[0], ids[2]);
}

#[tokio::test]
async fn a_member_cannot_read_messages_by_moving_them_to_a_folder_that_it_can_read() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    let secret = shared.append("Alpha", "secret").await;
    let (alpha, beta) = (shared.folder("Alpha").await, shared.folder("Beta").await);
    let write = Grant::on("folder", &alpha, &["mail:write"]);
    shared.invite("bob", &write).await.succeeds(201);
    let bob = shared.bob.clone();
    let writes_beta = Grant::on("folder", &beta, &["mail:write"]);
    let beta_grant = shared.grant(&writes_beta).await;
    shared
        .change(&beta_grant, &["mail:read", "mail:write"])
        .await;
    let one = format!("POST /api/v1/mail/messages/{secret}/move");
    let many = "POST /api/v1/mail/messages/bulk/move";
    for (line, body) in [
        (&*one, json!({ "destination": "Beta" })),
        (many, json!({ "destination": "Beta", "uids": [secret] })),
    ] {
        let refused = shared.send_json(&bob, line, &body).await;
        refused.fails_mentioning(403, "mail:read");
    }
    let listed = shared
        .send(&bob, "GET /api/v1/mail/folders/Beta/messages")
        .await;
    assert_eq!(listed.succeeds(200)["total"], 0);
    // A move is allowed if Bob can read neither folder, and if he can read both.
    shared.change(&beta_grant, &["mail:write"]).await;
    let moved = shared
        .send_json(&bob, &one, &json!({ "destination": "Beta" }))
        .await;
    moved.succeeds(200);
    shared.grant(&Grant::on("folder", &beta, READ)).await;
    shared.grant(&Grant::on("folder", &alpha, READ)).await;
    let back = shared
        .send_json(&bob, &one, &json!({ "destination": "Alpha" }))
        .await;
    back.succeeds(200);
}

#[tokio::test]
async fn a_member_lists_a_folder_by_cursor() {
    let service = Service::with_mail().await;
    let mut shared = SharedMailbox::new(&service).await;
    for subject in ["one", "two", "three"] {
        shared.append("Alpha", subject).await;
    }
    shared.append("Beta", "secret").await;
    let alpha = shared.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read"]);
    shared.invite("bob", &grant).await.succeeds(201);
    let bob = &shared.bob.clone();
    let line = |folder: &str, parameters: &str| {
        format!("GET /api/v1/mail/folders/{folder}/messages?limit=2&unread=true{parameters}")
    };
    let first = shared.send(bob, &line("Alpha", "")).await.succeeds(200);
    let cursor = first["nextCursor"].as_str().unwrap();
    let next = format!("&cursor={cursor}");
    let second = shared.send(bob, &line("Alpha", &next)).await.succeeds(200);
    let subjects: Vec<&str> = [&first, &second]
        .iter()
        .flat_map(|page| page["messages"].as_array().unwrap())
        .map(|message| message["subject"].as_str().unwrap())
        .collect();
    assert_eq!(subjects, ["three", "two", "one"]);
    assert_eq!(
        (&second["total"], &second["nextCursor"]),
        (&json!(3), &json!(null))
    );
    // A folder without a grant looks like an unknown folder, with and without a cursor.
    let mut refused = Vec::new();
    for folder in ["Beta", "Nowhere"] {
        let missing = shared.send(bob, &line(folder, "")).await;
        missing.fails(404, "Folder not found");
        let response = shared.send(bob, &line(folder, &next)).await;
        refused.push((response.status, response.json));
    }
    assert_eq!(refused[0], refused[1]);
    // The member's own folder with the same name is another folder.
    bob.send(&line("INBOX", &next))
        .await
        .fails_mentioning(400, "Invalid cursor");
}
