//! Specification, section 4.3: folders and messages are identified by the mail server's ids, whatever another IMAP client does between two requests.

use latchmail_tests::{Person, Service, imap, put};
use serde_json::Value;

use super::s4_3_numbers::expunges;

/// The id of the folder with this path.
async fn id_of(person: &Person<'_>, path: &str) -> Value {
    let folders = person.ask("GET /api/v1/mail/folders").await.succeeds(200);
    let folders = folders["folders"].as_array().unwrap();
    let folder = folders.iter().find(|folder| folder["path"] == path);
    folder.unwrap_or_else(|| panic!("no {path}: {folders:?}"))["id"].clone()
}

#[tokio::test]
async fn a_folder_is_listed_under_its_id_through_renames_and_the_loss_of_its_known_messages() {
    let service = Service::with_mail().await;
    let ada = service.person("ada").await;
    let mut client = imap(&ada).await;
    client.create("A").await.unwrap();
    put(&mut client, "A", "one").await;
    ada.messages("A").await;
    let id = id_of(&ada, "A").await;
    client.rename("A", "B").await.unwrap();
    put(&mut client, "B", "two").await;
    expunges(&mut client, "B", "one").await;
    client.close().await.unwrap();
    let renamed = id_of(&ada, "B").await;
    client.rename("B", "C").await.unwrap();
    expunges(&mut client, "C", "two").await;
    client.close().await.unwrap();
    assert_eq!([renamed, id_of(&ada, "C").await], [id.clone(), id.clone()]);
    // Two folders exchange their names, and one that is new takes the name of one that is gone.
    client.create("D").await.unwrap();
    let other = id_of(&ada, "D").await;
    for (from, to) in [("C", "E"), ("D", "C"), ("E", "D")] {
        client.rename(from, to).await.unwrap();
    }
    assert_eq!(id_of(&ada, "D").await, id);
    assert_eq!(id_of(&ada, "C").await, other);
    client.delete("C").await.unwrap();
    client.rename("D", "C").await.unwrap();
    client.create("D").await.unwrap();
    assert_eq!(id_of(&ada, "C").await, id);
    let new = id_of(&ada, "D").await;
    assert!(new != id && new != other);
}
