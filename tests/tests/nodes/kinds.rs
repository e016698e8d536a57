//! One kind that cannot be read is one kind that is not mirrored: nodes and proxies start without it, and have it later.

use weir_sim::Fits;

use crate::truth::Choice;
use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rf05_a_kind_that_upstream_cannot_list_keeps_no_other_from_its_start() {
    let world = World::with(231, |settings| {
        settings.mirrors = Vec::new();
        settings.before = |sim| {
            let maps = sim.resource("configmaps").unwrap();
            for instance in [0, 1] {
                sim.instance(instance).refuse(Fits::both("list", maps), 3, 500);
            }
        };
    })
    .await;
    let path = Choice::all(&world.collection("configmaps")).path("resourceVersion=0");
    let broken = world.client.get(&path).await;
    assert!(broken.code == 500 && broken.answered_by().starts_with("passed; "), "{}", broken.answered_by());
    for name in ["pods", "nodes"] {
        let collection = world.collection(name);
        let path = Choice::all(&collection).path("resourceVersion=0");
        world.mirrored(&path).await;
        world.churn(10);
        world.settled(&collection).await;
        world.client.get(&path).await.mirrored();
    }
    // As soon as upstream can, weir can.
    world.mirrored(&path).await;
}
