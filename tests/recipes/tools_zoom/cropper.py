"""A tool that cuts a box out of the newest picture of the episode."""

from typing import Any

from verl.tools.base_tool import BaseTool
from verl.tools.schemas import ToolResponse


class CropTool(BaseTool):
    """Gives the box as a picture; a text where there is nothing to see."""

    async def execute(self, instance_id: str, parameters: dict[str, Any], **kwargs) -> tuple[ToolResponse, float, dict]:
        pictures = kwargs["agent_data"].image_data or []
        left, top, right, bottom = (float(side) for side in parameters["box"])
        picture = pictures[-1].convert("RGB")
        box = (max(0, int(left)), max(0, int(top)), min(picture.width, int(right)), min(picture.height, int(bottom)))
        if box[2] - box[0] < 4 or box[3] - box[1] < 4:
            return ToolResponse(text=f"nothing to see in {parameters['box']}"), -0.05, {}
        text = f"picture {len(pictures)}: {parameters.get('note', 'a box')}"
        return ToolResponse(image=[picture.crop(box)], text=text), 0.1, {}
