//! A grant on a folder follows that folder through renames by any client, and applies to no other folder. Resources outside the grants look like
//! resources that do not exist.

use latchmail_tests::{Service, imap, stored};
use serde_json::json;

use super::rules::Grant;
use super::shared_mailbox::{World, from};

const READ: &[&str] = &["mail:read"];

#[tokio::test]
async fn a_renamed_folder_stays_shared_and_a_new_folder_with_its_old_name_is_not() {
    let service = Service::with_mail().await;
    let mut world = World::new(&service).await;
    let inside = world.put("Alpha", "inside").await;
    let alpha = world.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, READ);
    world.invite("bob", &grant).await.succeeds(201);
    let bob = world.bob.clone();
    let beta = world.folder("Beta").await;
    world.grant(&Grant::on("folder", &beta, READ)).await;

    // The connections of the members and of the owner have the folder open under its old name.
    let message = |uid| format!("GET /api/v1/mail/messages/{uid}");
    world.ask(&bob, &message(inside)).await.succeeds(200);
    world.ada.ask(&message(inside)).await.succeeds(200);
    world.client.rename("Alpha", "Omega").await.unwrap();
    // An empty folder can be recognized only by its UIDVALIDITY.
    world.client.rename("Beta", "Empty").await.unwrap();
    world.client.create("Alpha").await.unwrap();
    let outside = world.put("Alpha", "outside").await;

    let list = |folder: &str| format!("GET /api/v1/mail/folders/{folder}/messages");
    let listed = world.ask(&bob, &list("Omega")).await.succeeds(200);
    assert_eq!(listed["messages"][0]["uid"], inside);
    world
        .ask(&bob, &list("Alpha"))
        .await
        .fails(404, "Folder not found");
    world.ask(&bob, &list("Empty")).await.succeeds(200);
    world.ask(&bob, &message(inside)).await.succeeds(200);
    world
        .ask(&bob, &message(outside))
        .await
        .fails(404, "Message not found");
    assert_eq!(world.folder("Omega").await, alpha);
    assert_eq!(world.folder("Empty").await, beta);
    assert_ne!(world.folder("Alpha").await, alpha);
    let shown = world
        .ask(&bob, "GET /api/v1/mail/folders")
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
    let mut world = World::new(&service).await;
    let goes = world.put("Beta", "goes").await;
    let stays = world.put("Alpha", "stays").await;
    let alpha = world.folder("Alpha").await;
    let rights = &["mail:read", "mail:write"];
    world
        .invite("bob", &Grant::on("folder", &alpha, rights))
        .await
        .succeeds(201);
    let beta = world.folder("Beta").await;
    world.grant(&Grant::on("folder", &beta, rights)).await;
    let bob = world.bob.clone();
    world.client.rename("Alpha", "Omega").await.unwrap();
    world.client.create("Alpha").await.unwrap();
    let to = json!({ "destination": "Alpha" });
    let line = format!("POST /api/v1/mail/messages/{goes}/move");
    world
        .send(&bob, &line, &to)
        .await
        .fails(404, "Folder not found");
    // The owner may. Only this request tells the service about the other folder.
    world.ada.send(&line, &to).await.succeeds(200);
    let line = format!("GET /api/v1/mail/messages/{goes}");
    world.ask(&bob, &line).await.fails(404, "Message not found");
    let line = format!("GET /api/v1/mail/messages/{stays}");
    world.ask(&bob, &line).await.succeeds(200);
    assert_eq!(world.folder("Omega").await, alpha);
    assert_ne!(world.folder("Alpha").await, alpha);
}

#[tokio::test]
async fn a_folder_that_was_created_again_is_not_shared() {
    let service = Service::with_mail().await;
    let mut world = World::new(&service).await;
    world.put("Alpha", "before").await;
    let grant = Grant::on("folder", &world.folder("Alpha").await, READ);
    world.invite("bob", &grant).await.succeeds(201);
    let line = "GET /api/v1/mail/folders/Alpha/messages";
    world.ask(&world.bob, line).await.succeeds(200);
    world.client.delete("Alpha").await.unwrap();
    world.client.create("Alpha").await.unwrap();
    world.put("Alpha", "after").await;
    world
        .ask(&world.bob, line)
        .await
        .fails(404, "Folder not found");
    let line = "GET /api/v1/mail/search?q=after&folder=Alpha";
    world
        .ask(&world.bob, line)
        .await
        .fails(404, "Folder not found");
}

#[tokio::test]
async fn a_member_can_read_a_message_only_in_its_current_folder() {
    let service = Service::with_mail().await;
    let mut world = World::new(&service).await;
    let leaves = world.put("Alpha", "leaves").await;
    let comes = world.put("Beta", "comes").await;
    let grant = Grant::on("folder", &world.folder("Alpha").await, READ);
    world.invite("bob", &grant).await.succeeds(201);
    let message = |uid| format!("GET /api/v1/mail/messages/{uid}");
    world.ask(&world.bob, &message(leaves)).await.succeeds(200);
    world
        .ask(&world.bob, &message(comes))
        .await
        .fails(404, "Message not found");
    // Another client renames the folders without the service's knowledge.
    for (from, to) in [("Alpha", "Beta"), ("Beta", "Alpha")] {
        world.client.select(from).await.unwrap();
        world.client.uid_mv("1", to).await.unwrap();
    }
    world.ask(&world.bob, &message(comes)).await.succeeds(200);
    world
        .ask(&world.bob, &message(leaves))
        .await
        .fails(404, "Message not found");
    let attachment = format!("{}/attachments/0", message(leaves));
    world
        .ask(&world.bob, &attachment)
        .await
        .fails(404, "Message not found");
    let attachment = format!("{}/attachments/9", message(leaves));
    world
        .ask(&world.bob, &attachment)
        .await
        .fails(404, "Message not found");
}

#[tokio::test]
async fn resources_outside_the_grants_look_like_unknown_ones() {
    let service = Service::with_mail().await;
    let mut world = World::new(&service).await;
    let secret = world.put("Beta", "secret").await;
    world.put("INBOX", "private").await;
    let alpha = world.folder("Alpha").await;
    let grant = Grant::on("folder", &alpha, &["mail:read", "mail:write"]);
    world.invite("bob", &grant).await.succeeds(201);
    let bob = &world.bob.clone();
    let flag = json!({ "flags": ["\\Seen"], "action": "add" });
    let never = 999_999;
    for (line, body) in [
        ("GET /api/v1/mail/messages/{uid}", None),
        ("GET /api/v1/mail/messages/{uid}/attachments/0", None),
        ("GET /api/v1/mail/messages/{uid}/attachments/7", None),
        ("POST /api/v1/mail/messages/{uid}/flag", Some(&flag)),
        ("DELETE /api/v1/mail/messages/{uid}", None),
    ] {
        let mut answers = Vec::new();
        for uid in [secret, never] {
            let line = line.replace("{uid}", &uid.to_string());
            let answer = match body {
                Some(body) => world.send(bob, &line, body).await,
                None => world.ask(bob, &line).await,
            };
            answers.push((answer.status, answer.json));
        }
        assert_eq!(answers[0], answers[1], "{line}");
        assert_eq!(answers[0].0, 404, "{line}");
    }
    let mut bulk = flag.clone();
    let mut answers = Vec::new();
    for uid in [secret, never] {
        bulk["uids"] = json!([uid]);
        let answer = world
            .send(bob, "POST /api/v1/mail/messages/bulk/flag", &bulk)
            .await;
        answers.push((answer.status, answer.json));
    }
    assert_eq!(answers[0], answers[1]);
    let mut answers = Vec::new();
    for folder in ["Beta", "Nowhere", "INBOX", "Sent"] {
        for line in [
            format!("GET /api/v1/mail/folders/{folder}/messages"),
            format!("GET /api/v1/mail/search?q=secret&folder={folder}"),
        ] {
            let answer = world.ask(bob, &line).await;
            answers.push((answer.status, answer.json));
        }
        let uid = world.put_for("Alpha", folder).await;
        let line = format!("POST /api/v1/mail/messages/{uid}/move");
        let body = json!({ "destination": folder });
        let answer = world.send(bob, &line, &body).await;
        answers.push((answer.status, answer.json));
    }
    let expected = (404, json!({ "error": "Folder not found" }));
    assert!(
        answers.iter().all(|answer| *answer == expected),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_member_sends_as_the_owners_alias_and_is_named_only_in_the_audit_log() {
    let service = Service::with_mail().await;
    let mut world = World::new(&service).await;
    let alias = json!({ "name": "shop", "domain": "first.test" });
    world
        .ada
        .post("/api/v1/aliases", &alias)
        .await
        .succeeds(201);
    let grant = Grant::on("alias", "shop@first.test", &["mail:send"]);
    world.invite("bob", &grant).await.succeeds(201);
    let sent = world
        .send(
            &world.bob,
            "POST /api/v1/mail/send",
            &from("shop@first.test"),
        )
        .await
        .succeeds(200);
    // Bob must not learn the folder of the copy.
    assert!(sent.get("savedTo").is_none(), "{sent}");
    let filed = stored(&mut world.client, "Sent").await;
    assert_eq!(filed.len(), 1);
    assert_eq!(filed[0].header("From").unwrap(), "<shop@first.test>");
    let mut inbox = imap(&world.bob).await;
    let received = loop {
        let received = stored(&mut inbox, "INBOX").await;
        if !received.is_empty() {
            break received;
        }
    };
    let text = String::from_utf8_lossy(&received[0].bytes).to_string();
    assert!(!text.contains("ada@first.test"), "{text}");
    let record = service
        .operator(&format!("audit --account {} --json", world.ada.address), "")
        .await
        .done();
    let line = record.lines().find(|line| line.contains("sent_by_guest"));
    let line = line.expect("it is recorded");
    for mention in ["bob@first.test", "shop@first.test"] {
        assert!(line.contains(mention), "{line}");
    }
}

#[tokio::test]
async fn idempotency_keys_of_members_are_separate() {
    let service = Service::with_mail().await;
    let world = World::new(&service).await;
    let grant = Grant::on("mailbox", "", &["mail:send", "mail:read"]);
    world.invite("bob", &grant).await.succeeds(201);
    let line = format!("POST /api/v1/mail/send?mailbox={}", world.mailbox);
    let mut ids = Vec::new();
    for person in [&world.bob, &world.ada, &world.bob] {
        let request = service.request(&line).bearer_auth(&person.access);
        let request = request.header("Idempotency-Key", "the-same");
        let answer = latchmail_tests::Answer::of(request.json(&from(&world.ada.address))).await;
        ids.push(
            answer.succeeds(200)["messageId"]
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
    let mut world = World::new(&service).await;
    let secret = world.put("Alpha", "secret").await;
    let (alpha, beta) = (world.folder("Alpha").await, world.folder("Beta").await);
    let write = Grant::on("folder", &alpha, &["mail:write"]);
    world.invite("bob", &write).await.succeeds(201);
    let bob = world.bob.clone();
    let writes_beta = Grant::on("folder", &beta, &["mail:write"]);
    let beta_grant = world.grant(&writes_beta).await;
    world
        .change(&beta_grant, &["mail:read", "mail:write"])
        .await;
    let one = format!("POST /api/v1/mail/messages/{secret}/move");
    let many = "POST /api/v1/mail/messages/bulk/move";
    for (line, body) in [
        (&*one, json!({ "destination": "Beta" })),
        (many, json!({ "destination": "Beta", "uids": [secret] })),
    ] {
        let refused = world.send(&bob, line, &body).await;
        refused.fails_about(403, "mail:read");
    }
    let listed = world
        .ask(&bob, "GET /api/v1/mail/folders/Beta/messages")
        .await;
    assert_eq!(listed.succeeds(200)["total"], 0);
    // A move is allowed if Bob can read neither folder, and if he can read both.
    world.change(&beta_grant, &["mail:write"]).await;
    let moved = world
        .send(&bob, &one, &json!({ "destination": "Beta" }))
        .await;
    moved.succeeds(200);
    world.grant(&Grant::on("folder", &beta, READ)).await;
    world.grant(&Grant::on("folder", &alpha, READ)).await;
    let back = world
        .send(&bob, &one, &json!({ "destination": "Alpha" }))
        .await;
    back.succeeds(200);
}
