//! The starters of real servers start them.

use windlass_testkit::api::TestApi;

#[tokio::test]
async fn a_real_api_server_answers_its_administrator() {
    let api = TestApi::start().await.expect("etcd and kube-apiserver");
    let version = api.client().await.apiserver_version().await.expect("an answer");
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "37"));
}
