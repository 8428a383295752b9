#include "isthmus/lane/routes.h"

#include <gtest/gtest.h>

namespace isthmus::lane {
namespace {

TEST(RoutesTest, GenerationIsAdmittedAndStamped) {
  for (std::string_view path : {"/v1/completions", "/v1/chat/completions", "/v1/completions?x=1",
                                "/v1/messages", "/v1/responses", "/v1/embeddings"}) {
    EXPECT_EQ(RouteOf("POST", path).kind, RouteKind::kGenerate) << path;
    EXPECT_EQ(RouteOf("POST", path).shape, AnswerShape::kObject) << path;
    EXPECT_EQ(RouteOf("GET", path).kind, RouteKind::kBlocked) << path;
  }
  EXPECT_EQ(RouteOf("POST", "/generate").shape, AnswerShape::kMetaInfo);
  EXPECT_TRUE(RouteOf("POST", "/generate").native_spans);
  EXPECT_TRUE(RouteOf("POST", "/inference/v1/generate").native_spans);
  EXPECT_EQ(RouteOf("GET", "/v1/models").kind, RouteKind::kInform);
  EXPECT_EQ(RouteOf("POST", "/tokenize").kind, RouteKind::kInform);
}

TEST(RoutesTest, ControlIsBlockedInEverySpelling) {
  for (std::string_view path : {"/pause",
                                "/pause?mode=abort",
                                "/resume",
                                "/is_paused",
                                "/abort_requests",
                                "/sleep",
                                "/wake_up",
                                "/reset_prefix_cache",
                                "/collective_rpc",
                                "/update_weights",
                                "/update_weights_from_disk",
                                "/update_weight_version",
                                "/init_weight_transfer_engine",
                                "/start_weight_update",
                                "/finish_weight_update",
                                "/weight_checker",
                                "/weights_checker",
                                "/pause_generation",
                                "/continue_generation",
                                "/flush_cache",
                                "/abort_request",
                                "/begin_weight_update",
                                "/release_memory_occupation",
                                "/get_weights_by_name",
                                "/v1/load_lora_adapter",
                                "/load_lora_adapter",
                                "/inference/v1/abort_requests",
                                "/server_info",
                                "/docs",
                                "/openapi.json",
                                "//pause",
                                "/./pause",
                                "/%70ause",
                                "/pause/",
                                "/v1/completions/",
                                "/v1/completions/../../pause",
                                "/V1/completions",
                                "/v1/completions#",
                                "/v1/completions/render",
                                "",
                                "*",
                                "/",
                                "http://engine/v1/completions"}) {
    for (std::string_view method : {"GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "post"}) {
      EXPECT_EQ(RouteOf(method, path).kind, RouteKind::kBlocked) << method << " " << path;
    }
  }
}

}  // namespace
}  // namespace isthmus::lane
